"""Ray under an engine that spans nodes: one `ray start` a node (Ray's documentation, ray start).

Each replica is a cluster of its own, and several of them share a node: what Ray would put at a fixed place is
moved out of the way here, but for workers' ports, of which each cluster takes those that are free.
"""

import hashlib
from collections.abc import Iterator, Mapping
from typing import Final

from llmgwd.engines.address import host_port
from llmgwd.engines.environment import between_nodes, layered, visible_gpus
from llmgwd.engines.facts import NodeFacts
from llmgwd.engines.places import beside, for_sockets
from llmgwd.engines.plan import Process
from llmgwd.engines.replica import own_address_or_blank
from llmgwd.model.identifiers import ENGINE
from llmgwd.model.spec import ShardSpec

HEAD: Final = "ray-head"
CLIENT_SERVER_PORT: Final = 10_001
# Where its workers listen (ray start --min-worker-port, --max-worker-port).
WORKER_PORTS: Final = (10_002, 19_999)
LONGEST_SOCKET: Final = "/ray/session_2026-12-01_14-00-00_123456_4194304/sockets/plasma_store"
# The head's port is open seconds before the head is complete, and where its programs come over a network many
# more; whoever joins asks every 2 s, and would give up after 20 times.
PATIENCE: Final[Mapping[str, str]] = {"RAY_NUM_REDIS_GET_RETRIES": "60"}
ENVIRONMENT: Final[Mapping[str, str]] = {
    **PATIENCE,
    # A node that leaves is not waited for: without its other nodes the replica is of no use. 30 s otherwise.
    "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    "PYTHONUNBUFFERED": "1",
}


def head(
    spec: ShardSpec, facts: NodeFacts, configured: Mapping[str, str], *computed: Mapping[str, str]
) -> Process:
    """Rank 0's, before its engine, which waits for `own_address_of_head`. `computed`: the engine's own."""
    # fmt: off
    argv = (
        program(spec), "start",
        "--head",
        "--port", str(spec.leader_port),
        *_node(spec, facts),
        *_worker_ports(spec),
        "--include-dashboard", "false",
        "--dashboard-port", "0",
        "--disable-usage-stats",
    )
    # fmt: on
    return Process(
        name=HEAD,
        argv=argv,
        environment=_environment(spec, facts, configured, *computed),
        working_directory=spec.working_directory,
    )


def worker(
    spec: ShardSpec, facts: NodeFacts, configured: Mapping[str, str], *computed: Mapping[str, str]
) -> Process:
    """All that there is of any other rank: the engine's processes are Ray's children."""
    leader = host_port(spec.leader_address, spec.leader_port)
    return Process(
        name=ENGINE,
        argv=(program(spec), "start", "--address", leader, *_node(spec, facts)),
        environment=_environment(spec, facts, configured, *computed),
        working_directory=spec.working_directory,
        # Ray itself tries again only in its own time, and not for as long as the spec says.
        waits_for=(leader,),
    )


def joining(spec: ShardSpec, facts: NodeFacts) -> dict[str, str]:
    """For the engine of rank 0. Without an address it joins whichever cluster was started last."""
    return {"RAY_ADDRESS": own_address_of_head(spec, facts), **PATIENCE}


def own_address_of_head(spec: ShardSpec, facts: NodeFacts) -> str:
    """What rank 0's engine waits for, and joins."""
    return host_port(own_address_or_blank(facts), spec.leader_port)


def alone(spec: ShardSpec) -> dict[str, str]:
    """For an engine that starts a Ray of its own, on one node, and is not to join one that is there."""
    return {"RAY_ADDRESS": "local", "RAY_TMPDIR": directory(spec), "RAY_USAGE_STATS_ENABLED": "0"}


def program(spec: ShardSpec) -> str:
    """The one that was installed with the engine: both have to be of one version."""
    return beside(spec.executable, "ray")


def directory(spec: ShardSpec) -> str:
    """Where Ray keeps sockets and logs: the same on every node of a replica, and no other replica's."""
    name = f"ray-{hashlib.sha256(spec.replica_id.encode()).hexdigest()[:8]}"
    return for_sockets(spec, name, behind=len(LONGEST_SOCKET))


def warn_of_ports(spec: ShardSpec) -> Iterator[str]:
    """Those that Ray itself takes."""
    first, last = WORKER_PORTS
    for key, port in (("leader_port", spec.leader_port), ("port", spec.port)):
        if first <= port <= last:
            yield f"{key}: {port} is one of those that Ray's workers listen on ({first} to {last})"
        # Of a head alone, where gRPC for Python is installed; it cannot be told not to.
        if port == CLIENT_SERVER_PORT and spec.rank == 0:
            yield f"{key}: {port} is where Ray's client server listens"


def _node(spec: ShardSpec, facts: NodeFacts) -> tuple[str, ...]:
    gpus = () if spec.gpus is None else ("--num-gpus", str(len(spec.gpus)))
    return (
        "--block",
        "--node-ip-address", own_address_or_blank(facts),
        *gpus,
        "--temp-dir", directory(spec),
        "--dashboard-agent-listen-port", "0",
    )  # fmt: skip


def _worker_ports(spec: ShardSpec) -> tuple[str, ...]:
    """Ray refuses a head's port among its workers' ports: they get those on the longer side of it."""
    first, last = WORKER_PORTS
    port = spec.leader_port
    if not first <= port <= last:
        return ()
    first, last = (first, port - 1) if port - first > last - port else (port + 1, last)
    return ("--min-worker-port", str(first), "--max-worker-port", str(last))


def _environment(
    spec: ShardSpec, facts: NodeFacts, configured: Mapping[str, str], *computed: Mapping[str, str]
) -> Mapping[str, str]:
    """Of GPUs' processes, too: they are children of `ray start` on their own node."""
    shown = visible_gpus(spec, facts, indices=True)
    if shown.get("ROCR_VISIBLE_DEVICES") == "":  # many a Ray refuses to run where it is set
        del shown["ROCR_VISIBLE_DEVICES"]
    return layered(spec, configured, shown, between_nodes(spec, facts), ENVIRONMENT, *computed)
