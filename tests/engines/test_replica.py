from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from llmgwd.engines import replica
from llmgwd.engines.facts import NodeFacts
from llmgwd.model.errors import InvalidSpec
from llmgwd.model.spec import ShardSpec
from tests.engines.specs import LEADER, LEADER6, NO_GPU, NOWHERE, NVIDIA, WORKER, spec

PAIR = {"nodes": 2, "rank": 0, "leader_address": "10.0.0.1", "leader_port": 29500}
SIZES = "tensor_parallel {} x pipeline_parallel {} x data_parallel {}"
REACHABLE = "an address by which the other nodes reach the leader"
ANYBODYS = "is one of those that the kernel gives to anybody"
RAYS = "is one of those that Ray's workers listen on (10002 to 19999)"
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


@pytest.mark.parametrize(
    "address",
    [
        "",
        "localhost",
        "LocalHost",
        "node.localhost",
        "127.0.0.1",
        "127.9.9.9",
        "::1",
        "0:0:0:0:0:0:0:1",
        "::1%lo",
        "::ffff:127.0.0.1",
        "0.0.0.0",
        "::",
        "::ffff:0.0.0.0",
    ],
)
def test_what_leads_to_no_other_machine_is_unusable(address: str) -> None:
    assert replica.is_unusable(address)


@pytest.mark.parametrize(
    "address",
    [
        "10.0.0.1",
        "fd00::1",
        "fe80::1%eth0",
        "::ffff:10.0.0.1",
        "node-1",
        "localhost.example",
        "mylocalhost",
        "localhost-1",
    ],
)
def test_what_may_lead_to_another_machine_is_usable(address: str) -> None:
    assert not replica.is_unusable(address)


def test_an_address_is_ipv6_by_its_colons() -> None:
    addresses = ("fd00::1", "fe80::1%eth0", "10.0.0.1", "node-1")
    assert [replica.is_ipv6(address) for address in addresses] == [True, True, False, False]


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
            "leader_port: got 9000, takes another one than port",
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
    ],
)
def test_every_node_gets_the_same_share(sizes: tuple[int, int, int], nodes: int, fits: bool) -> None:
    keys = ("tensor_parallel", "pipeline_parallel", "data_parallel")
    refusal = refusal_of(
        replica.check_same_share, **{**PAIR, "nodes": nodes}, **dict(zip(keys, sizes, strict=True))
    )
    text = f"nodes: got {nodes}, takes a number by which {SIZES.format(*sizes)} can be divided"
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
        (["9", "GPU-9"], 2, NO_GPU, []),
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


@pytest.mark.parametrize(
    ("values", "facts"),
    [
        ({"nodes": 1, "leader_address": "10.0.0.9"}, LEADER),
        ({"rank": 1, "leader_address": "10.0.0.9"}, LEADER),
        ({"leader_address": "10.0.0.9"}, WORKER),  # it does not know its addresses
        ({"leader_address": "node-9"}, LEADER),
        ({"leader_address": "10.0.0.1"}, LEADER),
        ({"leader_address": "fd00:0:0::1"}, LEADER),
    ],
)
def test_a_leader_that_may_be_this_node_is_no_warning(values: dict[str, Any], facts: NodeFacts) -> None:
    assert list(replica.warn_of_leader(shard(**{**PAIR, **values}), facts)) == []


def test_a_leader_that_is_not_this_node_is_a_warning() -> None:
    made = [shard(**{**PAIR, "leader_address": address}) for address in ("10.0.0.9", "fd00::9")]
    assert [list(replica.warn_of_leader(one, LEADER)) for one in made] == [
        ["leader_address: this node is to be the leader and does not hold 10.0.0.9"],
        ["leader_address: this node is to be the leader and does not hold fd00::9"],
    ]


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


def test_alone_and_without_ray_no_port_is_a_warning() -> None:
    alone = shard(leader_address="10.0.0.1", leader_port=40_000, port=10_002)
    assert list(replica.warn_of_ports(alone, LEADER)) == []
    assert list(replica.warn_of_ports(shard(**PAIR, port=10_002), LEADER)) == []


@pytest.mark.parametrize(
    ("leader_port", "port", "texts"),
    [
        (10_001, 20_000, []),
        (10_002, 20_000, [f"leader_port: 10002 {RAYS}"]),
        (6379, 19_999, [f"port: 19999 {RAYS}"]),
        (10_002, 19_999, [f"leader_port: 10002 {RAYS}", f"port: 19999 {RAYS}"]),
        (40_000, 15_000, [f"leader_port: 40000 {ANYBODYS} {BY_THE_KERNEL}", f"port: 15000 {RAYS}"]),
    ],
)
def test_ports_among_those_of_rays_workers_are_a_warning(
    leader_port: int, port: int, texts: list[str]
) -> None:
    made = shard(**{**PAIR, "leader_port": leader_port}, port=port)
    assert list(replica.warn_of_ports(made, LEADER, ray=True)) == texts
