"""`llmgwctl node`: what the node has, and what looks wrong on it."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.fakes.command import Outcome
from tests.fakes.node import FakeNode

NODE: Mapping[str, Any] = {
    "Version": "0.1.0", "NodeName": "gpu-3", "ManagementAddress": "10.0.0.3", "ManagementInterface": "eth0",
    "NcclIbGidIndex": -1, "RdmaDevices": [], "Gpus": [], "Engines": ["command", "vllm"], "Warnings": [],
    "Starts": 0, "Ends": {},
}  # fmt: skip


def gpu(index: int, name: str, *, memory_bytes: int = 0, uuid: str = "", shard: str = "") -> dict[str, Any]:
    known = {"index": index, "name": name, "vendor": "nvidia"}
    return known | {"memory_bytes": memory_bytes, "uuid": uuid, "shard": shard}


def port(device: str, index: int, gid: str, **others: str) -> dict[str, Any]:
    place = {"device": device, "port": 1, "link_layer": "Ethernet", "state": "ACTIVE", "interface": "eth0"}
    return place | {"gid_index": index, "gid": gid} | others


def shown(node: FakeNode, **properties: Any) -> str:
    node.do("set", what="node", value={**NODE, **properties})
    outcome = node.run("node")
    assert (outcome.status, outcome.err) == (0, "")
    return outcome.out


def test_the_node_shows_what_it_has_and_what_looks_wrong(node: FakeNode) -> None:
    gpus = [gpu(0, "H100", memory_bytes=80 << 30, uuid="GPU-1", shard="a"), gpu(1, "GB10")]
    ports = [
        port("mlx5_0", 3, "0000:0000:0000:0000:0000:ffff:0a00:0003"),
        port("mlx5_1", -1, "", link_layer="InfiniBand", state="INIT", interface=""),
    ]
    warnings = ["memlock is limited to 64 KiB", "eth0 is down"]
    properties = {
        "NcclIbGidIndex": 3, "RdmaDevices": ports, "Gpus": gpus, "Warnings": warnings, "Starts": 12,
        "Ends": {"stopped": 9, "exited": 2},
    }  # fmt: skip
    assert (
        shown(node, **properties)
        == """\
Node:            gpu-3
Version:         0.1.0
Address:         10.0.0.3 (eth0)
NCCL GID index:  3
Engines:         command, vllm
Starts:          12
Ends:            2 exited, 9 stopped

GPU  VENDOR  NAME  MEMORY  SHARD  UUID
0    nvidia  H100  80 GiB  a      GPU-1
1    nvidia  GB10

RDMA    PORT  LINK        STATE   INTERFACE  GID INDEX  GID
mlx5_0  1     Ethernet    ACTIVE  eth0       3          ::ffff:10.0.0.3
mlx5_1  1     InfiniBand  INIT

Warning:  memlock is limited to 64 KiB
Warning:  eth0 is down
"""
    )
    assert node.run("node", "--json").json == {
        "version": "0.1.0", "node_name": "gpu-3", "management_address": "10.0.0.3",
        "management_interface": "eth0", "nccl_ib_gid_index": 3, "rdma_devices": ports, "gpus": gpus,
        "engines": ["command", "vllm"], "warnings": warnings, "starts": 12,
        "ends": {"stopped": 9, "exited": 2},
    }  # fmt: skip


def test_a_node_without_hardware_says_so(node: FakeNode) -> None:
    assert node.run("node") == Outcome(
        0,
        "Node:     gpu-3\nVersion:  0.1.0\nAddress:  10.0.0.3 (eth0)\nGPUs:     none\nRDMA:     none\n"
        "Engines:  command, llama-cpp, vllm\nStarts:   0\n",
    )


@pytest.mark.parametrize(
    ("address", "interface", "words"),
    [("", "", "none"), ("10.9.9.9", "", "10.9.9.9"), ("fd00::1", "br0", "fd00::1 (br0)")],
)
def test_the_node_shows_its_address_as_far_as_it_has_one(
    node: FakeNode, address: str, interface: str, words: str
) -> None:
    out = shown(node, ManagementAddress=address, ManagementInterface=interface)
    assert f"\nAddress:  {words}\n" in out


def test_ports_that_disagree_are_shown_beside_no_index_for_all(node: FakeNode) -> None:
    ports = [port("mlx5_0", 3, "rubbish"), port("mlx5_10", 5, "fd00:0000:0000:0000:0000:0000:0000:0001")]
    assert (
        shown(node, RdmaDevices=ports)
        == """\
Node:            gpu-3
Version:         0.1.0
Address:         10.0.0.3 (eth0)
GPUs:            none
NCCL GID index:  none passed
Engines:         command, vllm
Starts:          0

RDMA     PORT  LINK      STATE   INTERFACE  GID INDEX  GID
mlx5_0   1     Ethernet  ACTIVE  eth0       3          rubbish
mlx5_10  1     Ethernet  ACTIVE  eth0       5          fd00::1
"""
    )
