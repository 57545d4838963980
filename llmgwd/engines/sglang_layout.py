"""How SGLang's ranks lie on nodes, GPUs and ports (0.5.23: validation_hook.py, PortArgs, its DP controller).

With DP attention data_parallel is a part of tensor_parallel, not a factor beside it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from llmgwd.engines import options
from llmgwd.engines.facts import NodeFacts
from llmgwd.engines.replica import (
    check_enough_gpus,
    check_leader,
    share_of_a_node,
    warn_of_addresses,
    warn_of_gpus,
    warn_of_ports,
)
from llmgwd.model.spec import ShardSpec
from llmgwd.model.wording import refuse

# It means that --dp-size is the size of DP attention. To be removed after 2026.
DP_ATTENTION: Final = "--enable-dp-attention"
# Since 0.5.22 it has a size of its own, beside which --dp-size has to be 1.
DP_ATTENTION_SIZES: Final = ("--attn-dp-size", "--attention-data-parallel-size")
NAMES: Final = (DP_ATTENTION, *DP_ATTENTION_SIZES)

LAST_PORT: Final = 65_535
# With DP attention: so many after the port where ranks meet, for its processes among each other, and one more
# where rank 0 tells the other nodes about its workers.
FOLLOWING: Final = 6
HANDSHAKE: Final = 13
# On one node the ranks meet this far from the port that it serves on.
ON_ONE_NODE: Final = 233


def dp_attention(args: Sequence[str]) -> Mapping[str, str]:
    """What `args`, the configuration's and the spec's, say of it; `given` in all that follows."""
    return options.given(args, NAMES)


def check_layout(spec: ShardSpec, given: Mapping[str, str]) -> None:
    """Raises InvalidSpec."""
    check_leader(spec)
    _check_data_parallel(spec, given)
    _check_shares(spec)
    if _has_dp_attention(spec, given):
        _check_ports(spec)
    shape = _shape(spec, given)
    check_enough_gpus(shape, share_of_a_node(shape))


def warn_of_layout(spec: ShardSpec, facts: NodeFacts, given: Mapping[str, str]) -> Iterator[str]:
    shape = _shape(spec, given)
    yield from warn_of_addresses(spec, facts)
    yield from warn_of_ports(spec, facts, following=HANDSHAKE if _has_dp_attention(spec, given) else 0)
    yield from warn_of_gpus(shape, facts, share_of_a_node(shape))


def ports(spec: ShardSpec, given: Mapping[str, str]) -> tuple[int, ...]:
    """All of those that have to be free on this node."""
    if _has_dp_attention(spec, given):
        return (spec.port, *_ports_of_attention(spec))
    return (spec.port, spec.leader_port) if spec.nodes > 1 and spec.rank == 0 else (spec.port,)


def _has_dp_attention(spec: ShardSpec, given: Mapping[str, str]) -> bool:
    by_switch = DP_ATTENTION in given and spec.data_parallel > 1
    return by_switch or any(size in given for size in DP_ATTENTION_SIZES)


def _shape(spec: ShardSpec, given: Mapping[str, str]) -> ShardSpec:
    """A spec whose sizes multiply to the number of GPUs."""
    return replace(spec, data_parallel=1) if _has_dp_attention(spec, given) else spec


def _check_data_parallel(spec: ShardSpec, given: Mapping[str, str]) -> None:
    if spec.data_parallel == 1:
        return
    for size in DP_ATTENTION_SIZES:
        if size in given:
            raise refuse("data_parallel", spec.data_parallel, f"1 where args have {size}")
    if DP_ATTENTION in given and spec.tensor_parallel % spec.data_parallel:
        takes = f"a divisor of tensor_parallel {spec.tensor_parallel} ({DP_ATTENTION})"
        raise refuse("data_parallel", spec.data_parallel, takes)
    if DP_ATTENTION not in given and spec.nodes > 1:
        takes = (
            f"1 where nodes is {spec.nodes}: use --attn-dp-size in args "
            f"(before 0.5.22 {DP_ATTENTION}, beside this key)"
        )
        raise refuse("data_parallel", spec.data_parallel, takes)


def _check_shares(spec: ShardSpec) -> None:
    """A node has whole stages of the pipeline, or a stage has whole nodes: what is between hangs."""
    tensor, stages, nodes = spec.tensor_parallel, spec.pipeline_parallel, spec.nodes
    if stages % nodes == 0 or (nodes % stages == 0 and tensor % (nodes // stages) == 0):
        return
    takes = f"a divisor of tensor_parallel {tensor}"
    if stages > 1:
        takes = f"a divisor of pipeline_parallel {stages}, or {stages} times one of tensor_parallel {tensor}"
    raise refuse("nodes", nodes, takes)


def _check_ports(spec: ShardSpec) -> None:
    key, first = ("leader_port", spec.leader_port) if spec.nodes > 1 else ("port", spec.port)
    last = first + HANDSHAKE
    if last > LAST_PORT:
        takes = f"{LAST_PORT - HANDSHAKE} or less with DP attention, which takes ports after it"
        raise refuse(key, first, takes)
    if spec.port in _ports_of_attention(spec):
        takes = f"one outside of {first} to {last}, of which DP attention takes its ports"
        raise refuse("port", spec.port, takes)


def _ports_of_attention(spec: ShardSpec) -> tuple[int, ...]:
    """Rank 0 listens there, but the other ranks refuse to run, too, where one is taken on their node."""
    meeting = spec.leader_port if spec.nodes > 1 else _meeting_on_one_node(spec)
    first = meeting + 1 if meeting + FOLLOWING <= LAST_PORT else meeting - FOLLOWING - 1
    following = range(first, first + FOLLOWING)
    if spec.rank > 0:
        return (meeting, *following)
    return (meeting, *following, (spec.leader_port if spec.nodes > 1 else spec.port) + HANDSHAKE)


def _meeting_on_one_node(spec: ShardSpec) -> int:
    up = spec.port + ON_ONE_NODE
    return up if up <= LAST_PORT else spec.port - ON_ONE_NODE
