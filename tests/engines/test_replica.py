from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import Any

import pytest

from llmgwd.engines import replica
from llmgwd.engines.facts import NodeFacts
from llmgwd.model.errors import InvalidSpec
from llmgwd.model.spec import ShardSpec
from tests.engines.specs import LEADER, LEADER6, NO_GPU, NOWHERE, NVIDIA, plan, spec

PAIR = {"nodes": 2, "rank": 0, "leader_address": "10.0.0.1", "leader_port": 29500}
SIZES = "tensor_parallel {} x pipeline_parallel {} x data_parallel {}"
REACHABLE = "an address by which the other nodes reach the leader"
THOSE = "those that the kernel gives to anybody"
ANYBODYS = f"is one of {THOSE}"
SOME = "are needed, of which some are"
BY_THE_KERNEL = "(32768 to 60999, net.ipv4.ip_local_port_range)"


def shard(**values: Any) -> ShardSpec:
    return spec("vllm", **{"model": "org/m", **values})


def refusal_of(check: Callable[[ShardSpec], None], **values: Any) -> str:
    """Empty where there is none."""
    try:
        check(shard(**values))
    except InvalidSpec as refusal:
        return refusal.text
    return ""


def test_a_command_line_says_where_an_address_of_this_node_is_missing() -> None:
    everywhere = replace(NOWHERE, management_address="127.0.0.1")
    made = [replica.own_address_or_blank(facts) for facts in (LEADER, LEADER6, NOWHERE, everywhere)]
    assert made == ["10.0.0.1", "fd00::1", "MANAGEMENT_ADDRESS", "MANAGEMENT_ADDRESS"]


def test_an_engine_that_knows_no_other_node_is_alone() -> None:
    assert refusal_of(replica.check_alone) == ""
    assert refusal_of(replica.check_alone, **PAIR) == "nodes: got 2, takes 1: vllm cannot span nodes"


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({}, ""),
        ({"rank": 1}, ""),
        ({"leader_address": "fd00::1"}, ""),
        ({"leader_address": "node-1.example", "leader_port": 1024}, ""),
        (
            {"leader_address": "::1"},
            f"leader_address: got '::1', takes {REACHABLE} (nodes is 2)",
        ),
        ({"leader_port": 1023}, "leader_port: got 1023, takes 1024 to 65535: engines run without root"),
        (
            {"rank": 1, "port": 9000, "leader_port": 9000},
            "leader_port: got 9000, takes another one than the key port",
        ),
    ],
)
def test_the_leader_is_where_others_can_reach_it(values: dict[str, Any], text: str) -> None:
    assert refusal_of(replica.check_leader, **{**PAIR, **values}) == text


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"leader_address": "127.0.0.1"},
        {"leader_port": 80},
        {"port": 9000, "leader_port": 9000},
    ],
)
def test_alone_there_is_no_leader_to_be_checked(values: dict[str, Any]) -> None:
    assert refusal_of(replica.check_leader, **values) == ""


@pytest.mark.parametrize(
    ("sizes", "nodes", "fits"),
    [
        ((1, 1, 1), 1, True),
        ((4, 1, 1), 2, True),
        ((1, 3, 1), 3, True),
        ((3, 1, 2), 2, True),
        ((1, 1, 1), 2, False),
        ((3, 1, 1), 2, False),
        ((2, 2, 2), 3, False),
        ((2, 1, 1), 4, False),
    ],
)
def test_every_node_gets_the_same_share(sizes: tuple[int, int, int], nodes: int, fits: bool) -> None:
    keys = ("tensor_parallel", "pipeline_parallel", "data_parallel")
    refusal = refusal_of(
        replica.check_same_share, **{**PAIR, "nodes": nodes}, **dict(zip(keys, sizes, strict=True))
    )
    hint = ": raise one of them" if prod(sizes) < nodes else ""
    text = f"nodes: got {nodes}, takes a divisor of {SIZES.format(*sizes)}{hint}"
    assert refusal == ("" if fits else text)


def test_the_size_of_the_world_is_in_numbers_and_in_words() -> None:
    made = shard(tensor_parallel=2, pipeline_parallel=3, data_parallel=5)
    assert replica.world_size(made) == 30
    assert replica.sizes(made) == SIZES.format(2, 3, 5)


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({}, ""),
        ({"gpus": []}, ""),
        ({"gpus": ["0", "1"]}, ""),
        ({"gpus": ["0", "1", "2"]}, ""),
        ({"gpus": ["0"]}, f"gpus: got 1, takes 2: {SIZES.format(2, 1, 1)} on 1 node"),
        ({**PAIR, "gpus": ["0"]}, f"gpus: got 1, takes 2: {SIZES.format(2, 1, 1)} on 2 nodes"),
    ],
)
def test_gpus_that_were_named_have_to_be_enough(values: dict[str, Any], text: str) -> None:
    def check(made: ShardSpec) -> None:
        replica.check_enough_gpus(made, 2)

    assert refusal_of(check, tensor_parallel=2, **values) == text


@pytest.mark.parametrize(
    ("gpus", "needed", "facts", "texts"),
    [
        (None, 2, NVIDIA, []),
        ([], 2, NVIDIA, []),
        (["0", "GPU-7"], 2, NVIDIA, []),
        (["0", "1", "2"], None, NVIDIA, []),
        (["9", "GPU-9"], 2, NO_GPU, ["gpus: 9, GPU-9 named, but no GPU was found on this node"]),
        (["MIG-5f3c"], 2, NO_GPU, []),
        (["MIG-5f3c"], 2, NVIDIA, []),  # a part of one
        (["GPU-5f"], 2, replace(NVIDIA, gpus=(replace(NVIDIA.gpus[0], uuid="GPU-5f3c"),)), []),
        (["GPU-"], 2, NVIDIA, ["gpus: GPU- not among the GPUs of this node (0, 1, 2, 3, 4, 5, 6, 7)"]),
        (["0", "1", "2"], 2, NVIDIA, [f"gpus: 3 named, but {SIZES.format(1, 1, 1)} on 1 node takes 2"]),
        (
            ["0", "8", "GPU-9"],
            None,
            NVIDIA,
            ["gpus: 8, GPU-9 not among the GPUs of this node (0, 1, 2, 3, 4, 5, 6, 7)"],
        ),
        (
            ["0", "8"],
            1,
            replace(NVIDIA, gpus=(replace(NVIDIA.gpus[0], uuid=""),)),
            [
                f"gpus: 2 named, but {SIZES.format(1, 1, 1)} on 1 node takes 1",
                "gpus: 8 not among the GPUs of this node (0)",
            ],
        ),
    ],
)
def test_gpus_that_are_too_many_or_not_there_are_a_warning(
    gpus: list[str] | None, needed: int | None, facts: NodeFacts, texts: list[str]
) -> None:
    made = shard() if gpus is None else shard(gpus=gpus)
    assert list(replica.warn_of_gpus(made, facts, needed)) == texts


ZONED = replace(LEADER6, addresses=("10.0.0.1", "fd00::1", "fe80::1"))
FOLLOWS = {"rank": 1, "leader_address": "10.0.0.9"}
ALONE = ("tensorrt-llm", 1)  # whose other ranks are no shards
ASTRAY = replace(LEADER, management_address="10.0.0.8")


@pytest.mark.parametrize(
    ("values", "facts"),
    [
        (FOLLOWS, LEADER),
        ({**FOLLOWS, "leader_address": "node-9"}, LEADER),
        ({"leader_address": "10.0.0.9"}, replace(ASTRAY, addresses=())),  # nobody has looked
        ({"leader_address": "node-9"}, LEADER),
        ({"leader_address": "10.0.0.1"}, LEADER),
        ({"leader_address": "fd00:0:0::1"}, LEADER6),
        ({"leader_address": "::ffff:10.0.0.1"}, LEADER),
        ({"leader_address": "fe80::1%eth0"}, ZONED),
        (FOLLOWS, replace(LEADER, management_address="node-1")),
        (FOLLOWS, NOWHERE),
        (
            {**FOLLOWS, "leader_address": "fd00::9"},
            LEADER,
        ),  # Ray's head listens on both
    ],
)
def test_addresses_that_may_be_where_they_should_are_no_warning(
    values: dict[str, Any], facts: NodeFacts
) -> None:
    assert list(replica.warn_of_addresses(shard(**{**PAIR, **values}), facts)) == []


@pytest.mark.parametrize(
    ("values", "facts", "text"),
    [
        (
            {"leader_address": "10.0.0.9"},
            LEADER,
            "leader_address: this node is to be the leader and does not hold 10.0.0.9",
        ),
        (
            {"leader_address": "fd00::9"},
            LEADER6,
            "leader_address: this node is to be the leader and does not hold fd00::9",
        ),
        ({"rank": 1}, LEADER, "leader_address: 10.0.0.1 is this node, whose rank is 1, not 0"),
        (
            {"rank": 1, "leader_address": "fe80::1%eth0"},
            ZONED,
            "leader_address: fe80::1%eth0 is this node, whose rank is 1, not 0",
        ),
        ({}, ASTRAY, "management_address: 10.0.0.8 is held by no interface of this node"),
        (FOLLOWS, ASTRAY, "management_address: 10.0.0.8 is held by no interface of this node"),
    ],
)
def test_addresses_that_are_elsewhere_are_a_warning(
    values: dict[str, Any], facts: NodeFacts, text: str
) -> None:
    assert list(replica.warn_of_addresses(shard(**{**PAIR, **values}), facts)) == [text]


def test_alone_a_leader_is_a_warning_and_addresses_are_none() -> None:
    made = (shard(), shard(leader_address="10.0.0.9", peers=["10.0.0.2"]))
    assert [list(replica.warn_of_addresses(one, ASTRAY)) for one in made] == [
        [],
        ["leader_address: of no use where nodes is 1", "peers: of no use where nodes is 1"],
    ]


OF_ENGINES: dict[str, dict[str, Any]] = {
    "vllm": {"model": "m", "tensor_parallel": 2},
    "sglang": {"model": "m", "tensor_parallel": 2},
    "lmdeploy": {"model": "m", "tensor_parallel": 2},
    "llama-cpp": {"model": "m", "peers": ["10.0.0.2"]},
    "tensorrt-llm": {"model": "m", "tensor_parallel": 2, "peers": ["10.0.0.2"]},
    "command": {"command": ["/bin/true"]},
}


@pytest.mark.parametrize(("engine", "rank"), [(e, r) for e in OF_ENGINES for r in (0, 1) if (e, r) != ALONE])
def test_every_rank_of_every_engine_warns_of_a_node_that_lacks_its_own_address(
    engine: str, rank: int
) -> None:
    made = plan(engine, facts=ASTRAY, **{**PAIR, **OF_ENGINES[engine], "rank": rank})
    assert "management_address: 10.0.0.8 is held by no interface of this node" in made.warnings


@pytest.mark.parametrize("engine", ["llama-cpp", "tensorrt-llm"])
def test_whose_leader_names_the_nodes_is_not_one_of_them(engine: str) -> None:
    second = replace(LEADER, addresses=("10.0.0.1", "10.0.0.2"))
    made = plan(engine, facts=second, **{**PAIR, **OF_ENGINES[engine]})
    assert "peers: 10.0.0.2 is this node" in made.warnings


def test_a_peer_that_is_this_node_is_a_warning() -> None:
    made = shard(**PAIR, peers=["10.0.0.2", "node-1", "10.0.0.1:50052"])
    assert list(replica.warn_of_peers(made, LEADER)) == ["peers: 10.0.0.1:50052 is this node"]


@pytest.mark.parametrize(
    ("port", "is_warned_of"), [(32_767, False), (32_768, True), (60_999, True), (61_000, False)]
)
def test_a_leader_port_that_anybody_may_get_is_a_warning(port: int, is_warned_of: bool) -> None:
    made = shard(**{**PAIR, "leader_port": port})
    texts = [f"leader_port: {port} {ANYBODYS} {BY_THE_KERNEL}"]
    assert list(replica.warn_of_ports(made, LEADER)) == (texts if is_warned_of else [])


def test_which_ports_anybody_gets_is_the_nodes_to_say() -> None:
    narrow = replace(LEADER, ephemeral_ports=(50_000, 50_010))
    made = [shard(**{**PAIR, "leader_port": port}) for port in (49_999, 50_010)]
    assert [list(replica.warn_of_ports(one, narrow)) for one in made] == [
        [],
        [f"leader_port: 50010 {ANYBODYS} (50000 to 50010, net.ipv4.ip_local_port_range)"],
    ]


def test_alone_no_port_is_a_warning() -> None:
    alone = shard(leader_address="10.0.0.1", leader_port=40_000, port=10_002)
    assert list(replica.warn_of_ports(alone, LEADER)) == []


@pytest.mark.parametrize(
    ("port", "following", "texts"),
    [
        (32_766, 1, []),
        (32_767, 1, [f"leader_port: 32767 to 32768 {SOME} {THOSE} {BY_THE_KERNEL}"]),
        (32_755, 13, [f"leader_port: 32755 to 32768 {SOME} {THOSE} {BY_THE_KERNEL}"]),
        (32_768, 13, [f"leader_port: 32768 is one of {THOSE} {BY_THE_KERNEL}"]),
        (61_000, 13, []),
    ],
)
def test_so_are_those_that_follow_it(port: int, following: int, texts: list[str]) -> None:
    made = shard(**{**PAIR, "leader_port": port})
    assert list(replica.warn_of_ports(made, LEADER, following=following)) == texts
    assert list(replica.warn_of_ports(shard(leader_port=port), LEADER, following=following)) == []
