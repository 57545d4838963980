"""Which engines there are, by the name that specs call them."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from llmgwd.engines.command import Command
from llmgwd.engines.engine import Engine
from llmgwd.engines.llama_cpp import LlamaCpp
from llmgwd.engines.lmdeploy import Lmdeploy
from llmgwd.engines.ollama import Ollama
from llmgwd.engines.sglang import Sglang
from llmgwd.engines.tensorrt_llm import TensorrtLlm
from llmgwd.engines.tgi import Tgi
from llmgwd.engines.vllm import Vllm
from llmgwd.model.errors import InvalidSpec
from llmgwd.model.wording import refuse

BUILT_IN: Final[tuple[Engine, ...]] = (
    Vllm(),
    Sglang(),
    LlamaCpp(),
    TensorrtLlm(),
    Tgi(),
    Lmdeploy(),
    Ollama(),
    Command(),
)


class Engines(Mapping[str, Engine]):
    """Those of this package, and `others`, which add to them and replace none."""

    def __init__(self, others: Iterable[Engine] = ()) -> None:
        self._by_name = {engine.name: engine for engine in (*BUILT_IN, *others)}

    def __getitem__(self, name: str) -> Engine:
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    def asked(self, values: Mapping[str, object]) -> Engine:
        """The one that a spec of these values is for. Raises InvalidSpec, naming `engine`."""
        *names, last = self._by_name
        takes = f"{', '.join(names)} or {last}"
        if "engine" not in values:
            raise InvalidSpec(f"engine: required, takes {takes}")
        name = values["engine"]
        if not isinstance(name, str) or name not in self._by_name:
            raise refuse("engine", name, takes)
        return self._by_name[name]
