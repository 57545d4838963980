"""A replica over several nodes: what must be true of its sizes, addresses and ports before it runs."""

from collections.abc import Iterator

from llmgwd.engines.facts import NodeFacts, find_gpu
from llmgwd.model.addresses import host_and_port, is_unusable, parsed
from llmgwd.model.errors import InvalidSpec
from llmgwd.model.spec import ShardSpec
from llmgwd.model.wording import refuse

# What stands in a plan for an address that this node has not got; nothing is started with it.
NO_ADDRESS = "MANAGEMENT_ADDRESS"
FIRST_UNPRIVILEGED = 1_024


def own_address_or_blank(facts: NodeFacts) -> str:
    """This node's own address, for a command line."""
    return NO_ADDRESS if is_unusable(facts.management_address) else facts.management_address


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
        raise refuse("leader_port", spec.leader_port, "another one than the key port")


def check_same_share(spec: ShardSpec) -> None:
    """Every node gets as many ranks of the model as every other."""
    if world_size(spec) % spec.nodes:
        hint = ": raise one of them" if world_size(spec) < spec.nodes else ""
        raise refuse("nodes", spec.nodes, f"a divisor of {sizes(spec)}{hint}")


def world_size(spec: ShardSpec) -> int:
    return spec.tensor_parallel * spec.pipeline_parallel * spec.data_parallel


def share_of_a_node(spec: ShardSpec) -> int:
    """How many ranks of the model a node has, each with a GPU of its own."""
    return world_size(spec) // spec.nodes


def sizes(spec: ShardSpec) -> str:
    """In words: what the model is divided by."""
    return (
        f"tensor_parallel {spec.tensor_parallel} x pipeline_parallel {spec.pipeline_parallel} "
        f"x data_parallel {spec.data_parallel}"
    )


def check_peers(spec: ShardSpec) -> None:
    """For engines whose leader names the other nodes."""
    others = spec.nodes - 1
    if len(spec.peers) != others:
        takes = f"{others}: those of the other nodes" if others else "none"
        raise InvalidSpec(f"peers: got {len(spec.peers)} of them, takes {takes} (nodes is {spec.nodes})")


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
    strange = [gpu for gpu in whole if find_gpu(gpu, facts.gpus) is None]
    if strange and not facts.gpus:
        yield f"gpus: {', '.join(strange)} named, but no GPU was found on this node"
    elif strange:
        there = ", ".join(str(gpu.index) for gpu in facts.gpus)
        yield f"gpus: {', '.join(strange)} not among the GPUs of this node ({there})"


def holds(facts: NodeFacts, address: str) -> bool:
    """Whether it is certainly an address of this node."""
    return parsed(address) in map(parsed, facts.addresses)


def lacks(facts: NodeFacts, address: str) -> bool:
    """Whether it is certainly none: whose a name is may change, and somebody has to have looked."""
    return parsed(address) is not None and bool(facts.addresses) and not holds(facts, address)


def warn_of_addresses(spec: ShardSpec, facts: NodeFacts) -> Iterator[str]:
    """Those of this node and of the leader, where they are on another node than they should be."""
    yield from warn_of_own_address(spec, facts)
    if spec.nodes == 1:
        for key in ("leader_address", "peers"):
            if getattr(spec, key):
                yield f"{key}: of no use where nodes is 1"
        return
    if spec.rank == 0 and lacks(facts, spec.leader_address):
        yield f"leader_address: this node is to be the leader and does not hold {spec.leader_address}"
    if spec.rank > 0 and holds(facts, spec.leader_address):
        yield f"leader_address: {spec.leader_address} is this node, whose rank is {spec.rank}, not 0"


def warn_of_own_address(spec: ShardSpec, facts: NodeFacts) -> Iterator[str]:
    """Other nodes are told of it, and no interface is known for it."""
    if spec.nodes > 1 and lacks(facts, facts.management_address):
        yield f"management_address: {facts.management_address} is held by no interface of this node"


def warn_of_peers(spec: ShardSpec, facts: NodeFacts) -> Iterator[str]:
    """For engines whose leader names the other nodes."""
    for peer in spec.peers:
        if holds(facts, host_and_port(peer)[0]):
            yield f"peers: {peer} is this node"


def warn_of_ports(spec: ShardSpec, facts: NodeFacts, *, following: int = 0) -> Iterator[str]:
    """Of the port where ranks on several nodes meet, and so many `following` it."""
    if spec.nodes > 1:
        yield from warn_of_meeting(spec.leader_port, facts, following=following)


def warn_of_meeting(port: int, facts: NodeFacts, *, following: int = 0) -> Iterator[str]:
    """Somebody else may have got it by chance when the engine wants it."""
    first, last = facts.ephemeral_ports
    anybodys = f"those that the kernel gives to anybody ({first} to {last}, net.ipv4.ip_local_port_range)"
    if first <= port <= last:
        yield f"leader_port: {port} is one of {anybodys}"
    elif port < first <= port + following:
        yield f"leader_port: {port} to {port + following} are needed, of which some are {anybodys}"


def _nodes(spec: ShardSpec) -> str:
    return f"{spec.nodes} nodes" if spec.nodes > 1 else "1 node"
