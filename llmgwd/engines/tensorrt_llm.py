"""TensorRT-LLM: `trtllm-serve`, over nodes under the leader's `mpirun` (its documentation, trtllm-serve).

Taken from its releases 1.0 to 1.3, of which 1.3 alone knows `--served_model_name`.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from llmgwd.engines.address import http_of
from llmgwd.engines.engine import Traits
from llmgwd.engines.environment import between_nodes, layered, visible_gpus
from llmgwd.engines.facts import NodeFacts
from llmgwd.engines.keys import check_has_none, check_not_options
from llmgwd.engines.mpirun import check_blanks, check_hosts, mpirun, warn_of_other_nodes
from llmgwd.engines.options import check_args
from llmgwd.engines.plan import Http, Plan, Process
from llmgwd.engines.replica import (
    check_enough_gpus,
    check_leader,
    check_same_share,
    share_of_a_node,
    warn_of_addresses,
    warn_of_gpus,
    warn_of_peers,
)
from llmgwd.model.identifiers import ENGINE
from llmgwd.model.spec import ShardSpec
from llmgwd.model.wording import refuse

OPTIONS: Final[Mapping[str, str]] = {
    "--host": "host",
    "--port": "port",
    "--tensor-parallel-size": "tensor_parallel",
    "--tp-size": "tensor_parallel",
    "--pipeline-parallel-size": "pipeline_parallel",
    "--pp-size": "pipeline_parallel",
    "--served-model-name": "served_model_name",
}
OVER_NODES: Final[Mapping[str, str]] = {"--gpus-per-node": "nodes"}


class TensorrtLlm:
    name = "tensorrt-llm"
    # Reading its /metrics consumes them, and they are no gauges: there is nothing to drain by.
    traits = Traits(executable="trtllm-serve", port=8000, health_path="/health")

    def plan(
        self, spec: ShardSpec, facts: NodeFacts, args: tuple[str, ...], environment: Mapping[str, str]
    ) -> Plan:
        _check(spec)
        check_args(args, spec.args, {**OPTIONS, **(OVER_NODES if spec.nodes > 1 else {})}, argparse=False)
        argv = (*serve(spec), *args, *spec.args)
        if spec.nodes > 1:
            check_blanks(spec, args)
            argv = (*mpirun(spec, {**environment, **spec.environment}), *argv)
        variables = layered(
            spec,
            environment,
            visible_gpus(spec, facts),
            between_nodes(spec, facts),
            {"PYTHONUNBUFFERED": "1"},
        )
        return Plan(
            processes=(
                Process(
                    name=ENGINE,
                    argv=argv,
                    environment=variables,
                    working_directory=spec.working_directory,
                ),
            ),
            ports=(spec.port,),
            http=_http(spec),
            warnings=(
                *(warn_of_other_nodes(spec) if spec.nodes > 1 else ()),
                *warn_of_addresses(spec, facts),
                *warn_of_peers(spec, facts),
                *warn_of_gpus(spec, facts, needed=share_of_a_node(spec)),
            ),
        )


def serve(spec: ShardSpec) -> tuple[str, ...]:
    # The model comes first: what is there decides whether it serves or runs another of its commands.
    return (
        spec.executable, spec.model,
        "--host", spec.host,
        "--port", str(spec.port),
        "--tp_size", str(spec.tensor_parallel),
        "--pp_size", str(spec.pipeline_parallel),
        *gpus_of_a_node(spec),
        *served_name(spec),
    )  # fmt: skip


def gpus_of_a_node(spec: ShardSpec) -> tuple[str, ...]:
    # Otherwise it takes all the GPUs that it sees on the leader's node for its own.
    return ("--gpus_per_node", str(share_of_a_node(spec))) if spec.nodes > 1 else ()


def served_name(spec: ShardSpec) -> tuple[str, ...]:
    """Older releases do not know the option: only where it is needed."""
    if spec.served_model_name in (spec.model, _listed(spec.model)):
        return ()
    return ("--served_model_name", spec.served_model_name)


def _http(spec: ShardSpec) -> Http | None:
    http = http_of(spec)
    if http is None:
        return None
    return replace(http, served_model=_listed(spec.served_model_name))


def _listed(name: str) -> str:
    """What /v1/models makes of a name: of a directory the last part of its path (serve/openai_server.py)."""
    return name.rstrip("/").rpartition("/")[2] if name.startswith(("/", "./", "../")) else name


def _check(spec: ShardSpec) -> None:
    check_has_none(spec, "executor", "data_parallel_balancing", "data_parallel")
    check_not_options(spec, "model")
    if spec.rank > 0:
        raise refuse("rank", spec.rank, "0: the leader's mpirun starts tensorrt-llm on the other nodes")
    check_leader(spec)
    check_same_share(spec)
    check_enough_gpus(spec, share_of_a_node(spec))
    if spec.nodes > 1:
        check_hosts(spec)
