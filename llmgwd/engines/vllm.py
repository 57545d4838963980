"""vLLM on one node: `vllm serve` (vLLM's documentation, CLI reference)."""

from collections.abc import Mapping
from typing import Final

from llmgwd.engines.address import http_of
from llmgwd.engines.environment import environment_of
from llmgwd.engines.options import check_args
from llmgwd.engines.plan import NodeFacts, Plan, Process
from llmgwd.model.identifiers import ENGINE
from llmgwd.model.spec import ShardSpec
from llmgwd.model.wording import refuse

# What the spec decides, whether or not a single node needs it on the command line.
OPTIONS: Final[Mapping[str, str]] = {
    "--model": "model",
    "--served-model-name": "served_model_name",
    "--host": "host",
    "--port": "port",
    "--uds": "host",
    "--tensor-parallel-size": "tensor_parallel",
    "-tp": "tensor_parallel",
    "--pipeline-parallel-size": "pipeline_parallel",
    "-pp": "pipeline_parallel",
    "--data-parallel-size": "data_parallel",
    "-dp": "data_parallel",
    "--distributed-executor-backend": "executor",
    "--nnodes": "nodes",
    "-n": "nodes",
    "--node-rank": "rank",
    "-r": "rank",
    "--headless": "rank",
    "--master-addr": "leader_address",
    "--master-port": "leader_port",
}


class Vllm:
    name = "vllm"
    default_port = 8000
    health_path = "/health"
    default_executable = "vllm"
    takes_model = True
    takes_args = True

    def plan(
        self, spec: ShardSpec, facts: NodeFacts, args: tuple[str, ...], environment: Mapping[str, str]
    ) -> Plan:
        _check(spec)
        check_args(args, spec.args, OPTIONS, argparse=True)
        engine = Process(
            name=ENGINE,
            argv=(spec.executable, *serve(spec), *args, *spec.args),
            # What it printed before a SIGKILL is worth having.
            environment=environment_of(spec, facts, environment, PYTHONUNBUFFERED="1"),
            working_directory=spec.working_directory,
            waits_for=(),
        )
        return Plan(processes=(engine,), ports=(spec.port,), http=http_of(spec), warnings=_warnings(spec))


def serve(spec: ShardSpec) -> tuple[str, ...]:
    # The model comes first: --served-model-name takes every word up to the next option.
    return (
        "serve", spec.model,
        "--served-model-name", spec.served_model_name,
        "--host", spec.host,
        "--port", str(spec.port),
        "--tensor-parallel-size", str(spec.tensor_parallel),
        "--pipeline-parallel-size", str(spec.pipeline_parallel),
        *data_parallel(spec),
    )  # fmt: skip


def data_parallel(spec: ShardSpec) -> tuple[str, ...]:
    return ("--data-parallel-size", str(spec.data_parallel)) if spec.data_parallel > 1 else ()


def _check(spec: ShardSpec) -> None:
    if spec.nodes > 1:
        raise refuse("nodes", spec.nodes, "1: vllm on several nodes is not supported yet by this version")
    if spec.executor:
        raise refuse("executor", spec.executor, "nothing: it is not supported yet by this version")
    for key in ("model", "served_model_name"):
        # vLLM would read it as an option.
        if getattr(spec, key).startswith("-"):
            raise refuse(key, getattr(spec, key), "a name that does not begin with '-'")


def _warnings(spec: ShardSpec) -> tuple[str, ...]:
    needed = spec.tensor_parallel * spec.pipeline_parallel * spec.data_parallel
    if not spec.gpus or len(spec.gpus) == needed:
        return ()
    sizes = f"tensor_parallel {spec.tensor_parallel}, pipeline_parallel {spec.pipeline_parallel}"
    return (
        f"gpus: {len(spec.gpus)} named, but {sizes} and data_parallel {spec.data_parallel} take {needed}",
    )
