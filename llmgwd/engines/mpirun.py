"""TensorRT-LLM over nodes: the leader's `mpirun` starts one rank a GPU on each node (Open MPI, mpirun(1))."""

from collections.abc import Iterable, Iterator
from typing import Final

from llmgwd.engines.places import beside
from llmgwd.engines.replica import check_peers, share_of_a_node, world_size
from llmgwd.model.addresses import is_ipv6, is_unusable
from llmgwd.model.errors import InvalidSpec
from llmgwd.model.spec import ShardSpec
from llmgwd.model.wording import refuse

LAUNCHER: Final = "trtllm-llmapi-launch"
# mpirun itself hands on what begins so.
OF_MPI: Final = ("OMPI_", "PMIX_", "PRTE_")


def mpirun(spec: ShardSpec, environment: Iterable[str]) -> tuple[str, ...]:
    """One rank a GPU, the leader's first: rank 0 serves, and the launcher makes workers of all others.

    `environment`: the names that go to every node. What was computed is about this one, and stays.
    """
    hosts = (spec.leader_address, *spec.peers)
    handed_on = (name for name in environment if not name.startswith(OF_MPI))
    return (
        "mpirun",
        "-np", str(world_size(spec)),
        "-H", ",".join(f"{host}:{share_of_a_node(spec)}" for host in hosts),
        *(word for name in handed_on for word in ("-x", name)),
        beside(spec.executable, LAUNCHER),
    )  # fmt: skip


def check_hosts(spec: ShardSpec) -> None:
    """Raises InvalidSpec."""
    # Its list of hosts has a number of ranks behind each colon (Open MPI, orte/util/dash_host).
    if is_ipv6(spec.leader_address):
        raise refuse("leader_address", spec.leader_address, "a name or an IPv4 address: mpirun takes no IPv6")
    check_peers(spec)
    for place, peer in enumerate(spec.peers):
        if is_ipv6(peer) or is_unusable(peer):
            takes = "a name or an IPv4 address of another node, without a port: mpirun takes no IPv6"
            raise refuse(f"peers[{place}]", peer, takes)
        if peer.lower() in map(str.lower, (spec.leader_address, *spec.peers[:place])):
            raise refuse(f"peers[{place}]", peer, "each node once, and not the leader's")


def check_blanks(spec: ShardSpec, configured: tuple[str, ...]) -> None:
    """The launcher has its shell take the command line apart once more. Raises InvalidSpec.

    `configured`: the configuration's arguments.
    """
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


def warn_of_other_nodes(spec: ShardSpec) -> Iterator[str]:
    yield (
        "nodes: mpirun starts the processes on the other nodes by ssh, in no scope of llmgwd, "
        "which neither sees nor stops them"
    )
    if spec.gpus is not None:
        yield "gpus: this node's alone, the processes on the other nodes see all of theirs"
    if spec.environment_files:
        yield "environment_files: for this node alone, mpirun hands on to the others what environment sets"


def _is_taken_apart(word: str) -> bool:
    return not word or not set(word).isdisjoint(" \t\n")
