"""How a replica of vLLM lies over its nodes: which layouts there are, who serves, and where its ranks meet.

Source: vLLM 0.32, vllm/engine/arg_utils.py, create_engine_config.
"""

from collections.abc import Iterator
from enum import Enum, auto

from llmgwd.engines import ray
from llmgwd.engines.facts import NodeFacts
from llmgwd.engines.replica import (
    check_enough_gpus,
    check_leader,
    check_same_share,
    share_of_a_node,
    warn_of_addresses,
    warn_of_gpus,
    warn_of_ports,
)
from llmgwd.model.addresses import is_ipv6
from llmgwd.model.spec import ShardSpec
from llmgwd.model.wording import refuse


class Layout(Enum):
    ALONE = auto()
    # A copy of the model needs several nodes.
    SPANNING = auto()
    # Each node has copies of its own: data parallel.
    COPIES = auto()
    # Ray places the copy.
    RAY = auto()


def layout_of(spec: ShardSpec) -> Layout:
    if spec.nodes == 1:
        return Layout.ALONE
    if spec.executor == "ray":
        return Layout.RAY
    if spec.data_parallel > 1 and spec.data_parallel % spec.nodes == 0:
        return Layout.COPIES
    return Layout.SPANNING


def serves(spec: ShardSpec) -> bool:
    """Whether this rank has an HTTP server."""
    return spec.rank == 0 or spec.data_parallel_balancing != "internal"


def data_parallel_port(spec: ShardSpec) -> int:
    """Where ranks of data parallel over nodes meet. vLLM's own choice is the same for every replica."""
    return spec.leader_port + _ports_before(spec)


def _ports_before(spec: ShardSpec) -> int:
    """A spanning copy meets at the leader's port already."""
    return 1 if layout_of(spec) is Layout.SPANNING and spec.data_parallel > 1 else 0


def ports(spec: ShardSpec) -> tuple[int, ...]:
    """What this rank binds at a fixed place."""
    http = (spec.port,) if serves(spec) else ()
    if spec.nodes == 1 or spec.rank > 0:
        return http
    meeting = (data_parallel_port(spec),) if spec.data_parallel > 1 else ()
    return tuple(dict.fromkeys((*http, spec.leader_port, *meeting)))


def check_layout(spec: ShardSpec) -> None:
    check_leader(spec)
    _check_data_parallel(spec)
    _check_balancing(spec)
    if layout_of(spec) is not Layout.RAY:  # whose nodes may differ in GPUs
        check_same_share(spec)
        check_enough_gpus(spec, share_of_a_node(spec))


def warn_of_layout(spec: ShardSpec, facts: NodeFacts) -> Iterator[str]:
    by_ray = layout_of(spec) is Layout.RAY
    yield from warn_of_addresses(spec, facts)
    yield from warn_of_ports(spec, facts, following=_ports_before(spec))
    if by_ray:
        yield from ray.warn_of_ports(spec)
    if layout_of(spec) is not Layout.ALONE and spec.data_parallel > 1:
        yield from _warn_of_data_parallel(spec)
    yield from warn_of_gpus(spec, facts, None if by_ray else share_of_a_node(spec))


def _warn_of_data_parallel(spec: ShardSpec) -> Iterator[str]:
    """What hinges upon the model, which is not known here."""
    if is_ipv6(spec.leader_address):
        # vllm/config/parallel.py, _pick_stateless_dp_port, binds an AF_INET socket to it.
        yield (
            "leader_address: vllm 0.32 has no data parallel over IPv6 for mixtures of experts "
            f"({spec.leader_address})"
        )
    if spec.data_parallel_balancing != "internal" and spec.data_parallel == spec.nodes:
        # Hybrid becomes external where a node has one rank, and external balancing is refused for others.
        yield (
            f"data_parallel_balancing: vllm 0.32 takes {spec.data_parallel_balancing} with one rank a node "
            "for mixtures of experts alone"
        )


def _check_data_parallel(spec: ShardSpec) -> None:
    if spec.data_parallel == 1:
        return
    if spec.executor == "ray":
        # It takes the nodes that Ray has when it starts, and fails without the others; on one node, each rank
        # would start a Ray of its own.
        raise refuse("executor", spec.executor, f"mp (data_parallel is {spec.data_parallel})")
    if layout_of(spec) is not Layout.SPANNING:
        return
    if spec.nodes % spec.data_parallel:
        raise refuse("data_parallel", spec.data_parallel, f"a multiple or a divisor of nodes ({spec.nodes})")
    if spec.leader_port == 65_535 or data_parallel_port(spec) == spec.port:
        takes = "one whose next is free: data parallel meets there"
        raise refuse("leader_port", spec.leader_port, takes)


def _check_balancing(spec: ShardSpec) -> None:
    balancing = spec.data_parallel_balancing
    if balancing == "internal":
        return
    for key in ("nodes", "data_parallel"):
        if getattr(spec, key) == 1:
            raise refuse("data_parallel_balancing", balancing, f"internal ({key} is 1)")
    if balancing == "external" and spec.data_parallel != spec.nodes:
        takes = f"{spec.nodes}, one for each node (data_parallel_balancing is external)"
        raise refuse("data_parallel", spec.data_parallel, takes)
    if layout_of(spec) is not Layout.COPIES:
        takes = f"a multiple of nodes, {spec.nodes} (data_parallel_balancing is hybrid)"
        raise refuse("data_parallel", spec.data_parallel, takes)
