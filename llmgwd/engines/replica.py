"""A replica over several nodes: what must be true of its sizes, addresses and ports before it runs."""

import ipaddress
from collections.abc import Iterable, Iterator

from llmgwd.engines.facts import NodeFacts, find_gpu
from llmgwd.model.errors import InvalidSpec
from llmgwd.model.spec import ShardSpec
from llmgwd.model.wording import refuse

# What stands in a plan for an address that this node has not got; nothing is started with it.
NO_ADDRESS = "MANAGEMENT_ADDRESS"
FIRST_UNPRIVILEGED = 1_024
# Where Ray's workers listen (ray start --min-worker-port, --max-worker-port).
RAY_WORKER_PORTS = (10_002, 19_999)


def own_address_or_blank(facts: NodeFacts) -> str:
    """This node's own address, for a command line."""
    return NO_ADDRESS if is_unusable(facts.management_address) else facts.management_address


def is_unusable(address: str) -> bool:
    """Whether other nodes could not reach anybody by it: none, a loopback address, one that means all."""
    if not address or f".{address}".lower().endswith(".localhost"):  # RFC 6761, 6.3
        return True
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:  # a name
        return False
    inner = getattr(parsed, "ipv4_mapped", None) or parsed  # ::ffff:127.0.0.1
    return bool(inner.is_loopback or inner.is_unspecified)


def is_ipv6(address: str) -> bool:
    return ":" in address


def check_alone(spec: ShardSpec) -> None:
    """For engines that know no other node."""
    if spec.nodes > 1:
        raise refuse("nodes", spec.nodes, f"1: {spec.engine} cannot span nodes")


def check_leader(spec: ShardSpec) -> None:
    """Where the ranks of an engine meet: it has to lead to another machine, and to a port that can be had."""
    if spec.nodes == 1:
        return
    if is_unusable(spec.leader_address):
        takes = f"an address by which the other nodes reach the leader (nodes is {spec.nodes})"
        raise refuse("leader_address", spec.leader_address, takes)
    if spec.leader_port < FIRST_UNPRIVILEGED:
        raise refuse("leader_port", spec.leader_port, "1024 to 65535: engines run without root")
    if spec.leader_port == spec.port:
        raise refuse("leader_port", spec.leader_port, "another one than port")


def check_same_share(spec: ShardSpec) -> None:
    """Every node gets as many ranks of the model as every other."""
    if world_size(spec) % spec.nodes:
        raise refuse("nodes", spec.nodes, f"a number by which {sizes(spec)} can be divided")


def world_size(spec: ShardSpec) -> int:
    return spec.tensor_parallel * spec.pipeline_parallel * spec.data_parallel


def sizes(spec: ShardSpec) -> str:
    """In words: what the model is divided by."""
    return (
        f"tensor_parallel {spec.tensor_parallel} x pipeline_parallel {spec.pipeline_parallel} "
        f"x data_parallel {spec.data_parallel}"
    )


def check_enough_gpus(spec: ShardSpec, needed: int) -> None:
    """`needed` on this node. Where none are named, or no GPU at all is wanted, there is nothing to say."""
    if spec.gpus and len(spec.gpus) < needed:
        takes = f"{needed}: {sizes(spec)} on {_nodes(spec)}"
        raise InvalidSpec(f"gpus: got {len(spec.gpus)}, takes {takes}")


def warn_of_gpus(spec: ShardSpec, facts: NodeFacts, needed: int | None) -> Iterator[str]:
    """`needed` on this node, None where that is not known."""
    if spec.gpus and needed is not None and len(spec.gpus) > needed:
        yield f"gpus: {len(spec.gpus)} named, but {sizes(spec)} on {_nodes(spec)} takes {needed}"
    # A MIG device is a part of a GPU, and not listed.
    whole = [gpu for gpu in spec.gpus or () if not gpu.startswith("MIG-")]
    strange = [gpu for gpu in whole if facts.gpus and find_gpu(gpu, facts.gpus) is None]
    if strange:
        there = ", ".join(str(gpu.index) for gpu in facts.gpus)
        yield f"gpus: {', '.join(strange)} not among the GPUs of this node ({there})"


def warn_of_leader(spec: ShardSpec, facts: NodeFacts) -> Iterator[str]:
    """On the leader's node: an address that is not its own."""
    if spec.nodes == 1 or spec.rank != 0 or not facts.addresses:
        return
    try:
        leader = ipaddress.ip_address(spec.leader_address)
    except ValueError:  # a name: whose it is may change
        return
    if leader not in map(ipaddress.ip_address, facts.addresses):
        yield f"leader_address: this node is to be the leader and does not hold {spec.leader_address}"


def warn_of_ports(spec: ShardSpec, facts: NodeFacts, *, ray: bool = False) -> Iterator[str]:
    """Ports that somebody else may have got by chance when the engine wants them."""
    first, last = facts.ephemeral_ports
    if spec.nodes > 1 and first <= spec.leader_port <= last:
        yield (
            f"leader_port: {spec.leader_port} is one of those that the kernel gives to anybody "
            f"({first} to {last}, net.ipv4.ip_local_port_range)"
        )
    if ray:
        yield from _among_rays(spec)


def _among_rays(spec: ShardSpec) -> Iterator[str]:
    first, last = RAY_WORKER_PORTS
    for key, port in _ports(spec):
        if first <= port <= last:
            yield f"{key}: {port} is one of those that Ray's workers listen on ({first} to {last})"


def _ports(spec: ShardSpec) -> Iterable[tuple[str, int]]:
    return (("leader_port", spec.leader_port), ("port", spec.port))


def _nodes(spec: ShardSpec) -> str:
    return f"{spec.nodes} nodes" if spec.nodes > 1 else "1 node"
