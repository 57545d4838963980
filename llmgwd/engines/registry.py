"""Which engines there are: one entry a builder, by the name that specs call it."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Protocol

from llmgwd.engines.command import Command
from llmgwd.engines.llama_cpp import LlamaCpp
from llmgwd.engines.plan import NodeFacts, Plan
from llmgwd.engines.vllm import Vllm
from llmgwd.model import spec_keys
from llmgwd.model.errors import InvalidSpec
from llmgwd.model.spec import ShardSpec


class Engine(Protocol):
    """How one engine is started.

    `default_port` 0: it has none of its own. `health_path` empty: no HTTP. `takes_model` and `takes_args`:
    whether those keys mean anything to it.
    """

    name: str
    default_port: int
    health_path: str
    default_executable: str
    takes_model: bool
    takes_args: bool

    def plan(
        self, spec: ShardSpec, facts: NodeFacts, args: tuple[str, ...], environment: Mapping[str, str]
    ) -> Plan:
        """`args` and `environment` are the configuration's. Raises InvalidSpec, naming the key."""
        ...


ENGINES: Final[Mapping[str, Engine]] = MappingProxyType(
    {engine.name: engine for engine in (Vllm(), LlamaCpp(), Command())}
)


def find(name: str) -> Engine:
    """Raises InvalidSpec, naming `engine`, where there is none of that name or none yet."""
    if spec_keys.engine("engine", name) not in ENGINES:
        raise InvalidSpec(f"engine: {name} is not supported yet by this version")
    return ENGINES[name]
