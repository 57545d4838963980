from typing import Literal

import pytest

from llmgwd.config import Limit
from llmgwd.engines.facts import Gpu
from llmgwd.host import warnings
from llmgwd.host.network import Management
from llmgwd.host.rdma import RdmaPort

SET_IT = ": set management_address in [agent] of the configuration"
NONE = "no management address, as there is no default route" + SET_IT
UNUSABLE = "the management address {} is none by which other nodes reach this one" + SET_IT


@pytest.mark.parametrize(
    ("address", "interface", "expected"),
    [
        ("", "", NONE),
        ("127.0.0.1", "lo", UNUSABLE.format("127.0.0.1")),
        ("localhost", "", UNUSABLE.format("localhost")),
        ("0.0.0.0", "", UNUSABLE.format("0.0.0.0")),
        ("10.9.9.9", "", "the management address 10.9.9.9 is held by no interface of this node"),
        ("fe80::9%eth0", "", "the management address fe80::9%eth0 is held by no interface of this node"),
        ("a.example", "", "the management address a.example is a name: engines are told no interface"),
        (
            "10.0.0.9",
            "lo",
            "the management address 10.0.0.9 is held by lo alone: engines are told no interface",
        ),
        ("10.0.0.1", "bond0", "interface bond0, which holds the management address 10.0.0.1, is down"),
    ],
)
def test_what_is_wrong_with_the_management_address_is_told(
    address: str, interface: str, expected: str
) -> None:
    up = interface == "lo"
    assert list(warnings.of_management(Management(address, interface), up=up)) == [expected]


def test_nothing_is_said_of_an_address_that_other_nodes_can_reach() -> None:
    assert list(warnings.of_management(Management("10.0.0.1", "bond0"), up=True)) == []


def roce(device: str, index: int, *, state: str = "ACTIVE", roce_v2: tuple[int, ...] = (1, 3)) -> RdmaPort:
    return RdmaPort(device, 1, "Ethernet", state, "ens1", index, "", roce_v2)


INFINIBAND = RdmaPort("mlx5_8", 1, "InfiniBand", "ACTIVE", "ib0", -1, "")
IWARP = RdmaPort("irdma0", 1, "Ethernet", "ACTIVE", "eno1", -1, "")
NO_TABLE = "RDMA device irdma0 port 1 is active without any RoCE v2 GID, as iWARP is, interface eno1"
NO_IPV4 = "RDMA device mlx5_1 port 1 is active without a RoCE v2 GID of an IPv4 address, interface ens1"
DIFFER = "no NCCL_IB_GID_INDEX is passed, since one number is for all ports and theirs differ: "


@pytest.mark.parametrize(
    ("ports", "setting", "expected"),
    [
        ((), "auto", ["no RDMA device: traffic between nodes goes over TCP"]),
        ((), 7, ["no RDMA device: traffic between nodes goes over TCP"]),
        ((roce("mlx5_0", 3), roce("mlx5_1", 3), INFINIBAND), "auto", []),
        ((INFINIBAND,), "auto", []),
        (
            (roce("mlx5_0", 3, state="DOWN"),),
            "auto",
            ["no RDMA port is active: traffic between nodes goes over TCP"],
        ),
        (
            (roce("mlx5_0", 3), roce("mlx5_1", 5), roce("mlx5_2", 3), roce("mlx5_3", 9, state="DOWN")),
            "auto",
            [DIFFER + "3 on mlx5_0 port 1, mlx5_2 port 1; 5 on mlx5_1 port 1"],
        ),
        ((roce("mlx5_0", 3), roce("mlx5_1", 5)), "off", []),
        (
            (roce("mlx5_0", 3), roce("mlx5_1", -1)),
            "auto",
            [NO_IPV4, DIFFER + "3 on mlx5_0 port 1; none on mlx5_1 port 1"],
        ),
        ((roce("mlx5_1", -1),), "auto", [NO_IPV4]),
        ((roce("mlx5_1", -1, state="DOWN"), INFINIBAND), "auto", []),
        # Where there is IPv6 alone, a number is the way to say so.
        ((roce("mlx5_1", -1),), 1, []),
        ((roce("mlx5_0", 3), IWARP), "auto", [NO_TABLE]),
        (
            (roce("mlx5_0", 3), roce("mlx5_2", 5, roce_v2=(5,)), INFINIBAND),
            3,
            ["nccl_ib_gid_index is 3, but there is no RoCE v2 GID at it on mlx5_2 port 1"],
        ),
        ((INFINIBAND,), 3, ["nccl_ib_gid_index is 3, but there is no active RoCE port"]),
    ],
)
def test_what_is_wrong_with_rdma_is_told(
    ports: tuple[RdmaPort, ...], setting: Literal["auto", "off"] | int, expected: list[str]
) -> None:
    assert list(warnings.of_rdma(ports, setting, open_to_programs=True)) == expected


def test_rdma_devices_that_programs_cannot_open_are_told() -> None:
    assert list(warnings.of_rdma((INFINIBAND,), "auto", open_to_programs=False)) == [
        "no /dev/infiniband/uverbs*: programs cannot use the RDMA devices (is module ib_uverbs loaded?)"
    ]


@pytest.mark.parametrize(
    ("configured", "obtainable", "what"),
    [
        ("infinity", 8 << 20, "8192 KiB of memory, the hard limit of llmgwd, not the infinity"),
        (1 << 30, 65_536, "64 KiB of memory, the hard limit of llmgwd, not the 1048576 KiB"),
    ],
)
def test_a_limit_that_cannot_be_given_is_told(configured: Limit, obtainable: Limit, what: str) -> None:
    assert list(warnings.of_memlock(configured, obtainable)) == [
        f"engines can lock {what} of limit_memlock: RDMA and pinned memory may fail"
    ]


@pytest.mark.parametrize("limit", ["infinity", 65_536])
def test_nothing_is_said_of_a_limit_that_is_given(limit: Limit) -> None:
    assert list(warnings.of_memlock(limit, limit)) == []


def test_gpus_of_two_vendors_are_told() -> None:
    nvidia, amd = (Gpu(0, "", "A", vendor, 0) for vendor in ("nvidia", "amd"))
    assert list(warnings.of_gpus((nvidia, nvidia))) == []
    assert list(warnings.of_gpus((nvidia, nvidia, amd))) == [
        "GPUs of nvidia and amd: in a spec, indices mean those of nvidia"
    ]
