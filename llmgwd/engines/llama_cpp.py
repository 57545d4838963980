"""llama.cpp on one node: `llama-server` (llama.cpp, tools/server/README.md)."""

from collections.abc import Mapping
from typing import Final

from llmgwd.engines.address import http_of
from llmgwd.engines.environment import environment_of
from llmgwd.engines.options import ALWAYS_SET, check_args
from llmgwd.engines.plan import NodeFacts, Plan, Process
from llmgwd.model.identifiers import ENGINE
from llmgwd.model.spec import ShardSpec
from llmgwd.model.wording import refuse

OPTIONS: Final[Mapping[str, str]] = {
    "-m": "model",
    "--model": "model",
    "-a": "served_model_name",
    "--alias": "served_model_name",
    "--host": "host",
    "--port": "port",
    "--metrics": ALWAYS_SET,
}
DEVICE: Final[Mapping[str, str]] = {"-dev": "gpus", "--device": "gpus"}


class LlamaCpp:
    name = "llama-cpp"
    default_port = 8080
    health_path = "/health"
    default_executable = "llama-server"
    takes_model = True
    takes_args = True

    def plan(
        self, spec: ShardSpec, facts: NodeFacts, args: tuple[str, ...], environment: Mapping[str, str]
    ) -> Plan:
        _check(spec)
        check_args(args, spec.args, _options(spec), argparse=False)
        engine = Process(
            name=ENGINE,
            argv=(spec.executable, *serve(spec), *args, *spec.args),
            environment=environment_of(spec, facts, environment),
            working_directory=spec.working_directory,
            waits_for=(),
        )
        return Plan(processes=(engine,), ports=(spec.port,), http=http_of(spec), warnings=())


def serve(spec: ShardSpec) -> tuple[str, ...]:
    return (
        "-m", spec.model,
        "--alias", spec.served_model_name,
        "--host", spec.host,
        "--port", str(spec.port),
        *split(spec),
        *no_device(spec),
        "--metrics",
    )  # fmt: skip


def split(spec: ShardSpec) -> tuple[str, ...]:
    """It has no numbers: it splits over all the GPUs that it sees, by layers unless told otherwise."""
    if spec.tensor_parallel > 1:
        return ("--split-mode", "row")
    if spec.pipeline_parallel > 1:
        return ("--split-mode", "layer")
    return ()


def no_device(spec: ShardSpec) -> tuple[str, ...]:
    # The variables that hide GPUs mean nothing to a build for Vulkan.
    return ("--device", "none") if spec.gpus == () else ()


def _options(spec: ShardSpec) -> Mapping[str, str]:
    key = "tensor_parallel" if spec.tensor_parallel > 1 else "pipeline_parallel"
    splits = {"-sm": key, "--split-mode": key} if split(spec) else {}
    return {**OPTIONS, **splits, **(DEVICE if no_device(spec) else {})}


def _check(spec: ShardSpec) -> None:
    if spec.nodes > 1:
        takes = "1: llama-cpp on several nodes is not supported yet by this version"
        raise refuse("nodes", spec.nodes, takes)
    if spec.executor:
        raise refuse("executor", spec.executor, "nothing: llama-cpp has none")
    if spec.data_parallel > 1:
        raise refuse("data_parallel", spec.data_parallel, "1: llama-cpp has none")
    if spec.tensor_parallel > 1 and spec.pipeline_parallel > 1:
        raise refuse("pipeline_parallel", spec.pipeline_parallel, "1 where tensor_parallel is more than 1")
    name = spec.served_model_name
    if "," in name or name != name.strip():
        # It takes a list of names and lists the first, without the blanks around it.
        raise refuse("served_model_name", name, "a name without commas and without blanks at its ends")
