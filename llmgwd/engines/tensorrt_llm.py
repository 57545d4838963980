"""TensorRT-LLM: `trtllm-serve`, over nodes under the leader's `mpirun` (its documentation, trtllm-serve).

Taken from its releases 1.0 to 1.3, of which 1.3 alone knows `--served_model_name`.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from llmgwd.engines.address import http_of
from llmgwd.engines.engine import Traits
from llmgwd.engines.environment import between_nodes, layered, visible_gpus
from llmgwd.engines.facts import NodeFacts
from llmgwd.engines.keys import check_has_none, check_not_options
from llmgwd.engines.options import check_args
from llmgwd.engines.plan import Http, Plan, Process
from llmgwd.engines.replica import (
    check_enough_gpus,
    check_leader,
    check_same_share,
    is_unusable,
    warn_of_gpus,
    warn_of_leader,
    world_size,
)
from llmgwd.model.errors import InvalidSpec
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
LAUNCHER: Final = "trtllm-llmapi-launch"
# mpirun itself hands on what begins so.
OF_MPI: Final = ("OMPI_", "PMIX_", "PRTE_")


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
            _check_blanks(spec, args)
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
                *_warn_of_other_nodes(spec),
                *warn_of_leader(spec, facts),
                *warn_of_gpus(spec, facts, needed=_ranks_of_a_node(spec)),
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
        *share_of_a_node(spec),
        *served_name(spec),
    )  # fmt: skip


def mpirun(spec: ShardSpec, environment: Iterable[str]) -> tuple[str, ...]:
    """One rank a GPU, the leader's first: rank 0 serves, and the launcher makes workers of all others.

    `environment`: the names that go to every node. What was computed is about this one, and stays.
    """
    ranks = _ranks_of_a_node(spec)
    hosts = (spec.leader_address, *spec.peers)
    handed_on = (name for name in environment if not name.startswith(OF_MPI))
    return (
        "mpirun",
        "-np", str(world_size(spec)),
        "-H", ",".join(f"{host}:{ranks}" for host in hosts),
        *(word for name in handed_on for word in ("-x", name)),
        _beside(spec.executable, LAUNCHER),
    )  # fmt: skip


def share_of_a_node(spec: ShardSpec) -> tuple[str, ...]:
    # Otherwise it takes all the GPUs that it sees on the leader's node for its own.
    return ("--gpus_per_node", str(_ranks_of_a_node(spec))) if spec.nodes > 1 else ()


def served_name(spec: ShardSpec) -> tuple[str, ...]:
    """Older releases do not know the option: only where it is needed."""
    if spec.served_model_name in (spec.model, _listed(spec.model)):
        return ()
    return ("--served_model_name", spec.served_model_name)


def _http(spec: ShardSpec) -> Http | None:
    http = http_of(spec)
    return http and replace(http, served_model=_listed(spec.served_model_name))


def _listed(name: str) -> str:
    """What /v1/models makes of a name: of a directory the last part of its path (serve/openai_server.py)."""
    return name.rstrip("/").rpartition("/")[2] if name.startswith(("/", "./", "../")) else name


def _beside(executable: str, name: str) -> str:
    """The program of that name which was installed with this one."""
    folder, slash, _ = executable.rpartition("/")
    return f"{folder}{slash}{name}"


def _ranks_of_a_node(spec: ShardSpec) -> int:
    return world_size(spec) // spec.nodes


def _check(spec: ShardSpec) -> None:
    check_has_none(spec, "executor", "data_parallel_balancing", "data_parallel")
    check_not_options(spec, "model")
    if spec.rank > 0:
        raise refuse("rank", spec.rank, "0: the leader's mpirun starts tensorrt-llm on the other nodes")
    check_leader(spec)
    check_same_share(spec)
    check_enough_gpus(spec, _ranks_of_a_node(spec))
    if spec.nodes > 1:
        _check_hosts(spec)


def _check_hosts(spec: ShardSpec) -> None:
    # Its list of hosts has a number of ranks behind each colon (Open MPI, orte/util/dash_host).
    if ":" in spec.leader_address:
        raise refuse("leader_address", spec.leader_address, "a name or an IPv4 address: mpirun takes no IPv6")
    if len(spec.peers) != spec.nodes - 1:
        takes = f"{spec.nodes - 1}: those of the other nodes (nodes is {spec.nodes})"
        raise InvalidSpec(f"peers: got {len(spec.peers)} addresses, takes {takes}")
    for place, peer in enumerate(spec.peers):
        if not set(peer).isdisjoint(":[]") or is_unusable(peer):
            takes = "a name or an IPv4 address of another node, without a port: mpirun takes no IPv6"
            raise refuse(f"peers[{place}]", peer, takes)
        if peer in (spec.leader_address, *spec.peers[:place]):
            raise refuse(f"peers[{place}]", peer, "each node once, and not the leader's")


def _check_blanks(spec: ShardSpec, configured: tuple[str, ...]) -> None:
    """The launcher has its shell take the command line apart once more."""
    for key in ("executable", "model", "served_model_name"):
        if _is_taken_apart(getattr(spec, key)):
            takes = f"a name without blanks where nodes is {spec.nodes}: {LAUNCHER} divides at them"
            raise refuse(key, getattr(spec, key), takes)
    for where, args in (("args of the configuration", configured), ("args", spec.args)):
        if any(map(_is_taken_apart, args)):
            raise InvalidSpec(
                f"{where}: got one that is empty or has a blank in it, "
                f"takes none such where nodes is {spec.nodes}: {LAUNCHER} divides at blanks"
            )


def _is_taken_apart(word: str) -> bool:
    return not word or not set(word).isdisjoint(" \t\n")


def _warn_of_other_nodes(spec: ShardSpec) -> Iterator[str]:
    if spec.nodes == 1:
        return
    yield (
        "nodes: mpirun starts the processes on the other nodes by ssh, in no scope of llmgwd, "
        "which neither sees nor stops them"
    )
    if spec.gpus is not None:
        yield "gpus: this node's alone, the processes on the other nodes see all of theirs"
    if spec.environment_files:
        yield "environment_files: for this node alone, mpirun hands on to the others what environment sets"
