"""Ollama, on one node: `ollama serve`, which is told all by its environment (Ollama, envconfig/config.go)."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from llmgwd.engines.address import host_port, http_of
from llmgwd.engines.engine import Loading, Traits
from llmgwd.engines.environment import layered, visible_gpus
from llmgwd.engines.facts import NodeFacts
from llmgwd.engines.keys import check_has_none
from llmgwd.engines.plan import Http, Plan, Process
from llmgwd.engines.replica import check_alone, warn_of_gpus
from llmgwd.model.identifiers import ENGINE
from llmgwd.model.spec import ShardSpec
from llmgwd.model.wording import refuse

ADDRESS: Final = "OLLAMA_HOST"
REGISTRY: Final = "registry.ollama.ai"
NAMESPACE: Final = "library"
TAG: Final = "latest"


class Ollama:
    name = "ollama"
    traits = Traits(
        executable="ollama",
        port=11434,
        health_path="/",
        while_loading=Loading.ANSWERS,
        takes_args=False,
    )

    def plan(
        self, spec: ShardSpec, facts: NodeFacts, args: tuple[str, ...], environment: Mapping[str, str]
    ) -> Plan:
        """`args` are empty: this engine takes none."""
        _check(spec)
        engine = Process(
            name=ENGINE,
            argv=(spec.executable, "serve"),
            environment=layered(spec, environment, _gpus(spec, facts), serve(spec)),
            working_directory=spec.working_directory,
        )
        return Plan(
            processes=(engine,),
            ports=(spec.port,),
            http=_http(spec),
            warnings=(
                *_warn_of_address(spec, engine.environment),
                *warn_of_gpus(spec, facts, needed=None),
            ),
        )


def serve(spec: ShardSpec) -> Mapping[str, str]:
    return {
        ADDRESS: host_port(spec.host, spec.port),
        # The shard holds its GPUs as long as it lives: after 5 minutes without a request the model would be
        # gone from them, for nobody's good.
        "OLLAMA_KEEP_ALIVE": "-1",
    }


def listed(name: str) -> str:
    """A model's name as /v1/models has it: with a tag, and without what it shares with most (types/model)."""
    path, colon, tag = name.rpartition(":")
    if not colon or "/" in tag:
        path, tag = name, TAG
    *above, model = path.rsplit("/", 2)
    namespace = above.pop() if above else NAMESPACE
    registry = above.pop().rpartition("://")[2] if above else REGISTRY
    if registry.lower() != REGISTRY:
        return f"{registry}/{namespace}/{model}:{tag}"
    return f"{model}:{tag}" if namespace.lower() == NAMESPACE else f"{namespace}/{model}:{tag}"


def _gpus(spec: ShardSpec, facts: NodeFacts) -> dict[str, str]:
    """Vulkan, which it asks as well, heeds none of the other variables and would find every GPU."""
    visible = visible_gpus(spec, facts)
    if not visible:
        return {}
    return visible | {"OLLAMA_VULKAN": "0"}


def _http(spec: ShardSpec) -> Http | None:
    http = http_of(spec)
    if http is None:
        return None
    return replace(http, served_model=listed(spec.model))


def _check(spec: ShardSpec) -> None:
    check_alone(spec)
    check_has_none(spec, "executor", "data_parallel_balancing", "data_parallel")
    for key in ("tensor_parallel", "pipeline_parallel"):
        if getattr(spec, key) > 1:
            takes = "1: ollama divides a model over its GPUs as it sees fit"
            raise refuse(key, getattr(spec, key), takes)
    if listed(spec.served_model_name) != listed(spec.model):
        takes = f"{listed(spec.model)}: ollama serves a model by its own name"
        raise refuse("served_model_name", spec.served_model_name, takes)


def _warn_of_address(spec: ShardSpec, environment: Mapping[str, str]) -> Iterator[str]:
    if environment[ADDRESS] != host_port(spec.host, spec.port):
        yield f"environment: {ADDRESS} has it listen elsewhere than host and port say"
