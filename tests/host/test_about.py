"""What is told of this node, from what host/ finds on it."""

import importlib.metadata
import platform
from dataclasses import replace
from importlib.metadata import PackageNotFoundError
from ipaddress import ip_interface
from pathlib import Path

import pytest

from llmgwd.config import AgentConfig, Config, EngineConfig
from llmgwd.engines.facts import Gpu, NodeFacts
from llmgwd.host import about
from llmgwd.host.about import VERSION, About, look_again, look_around
from llmgwd.host.network import (
    Interfaces,
    Management,
    Unreadable,
    addresses_of,
    ephemeral_ports,
    find_management,
    read_interfaces,
)
from llmgwd.host.rdma import RdmaPort

GPUS = (Gpu(0, "GPU-a", "H100", "nvidia", 80 << 30), Gpu(0, "GPU-b", "MI300X", "amd", 192 << 30))
INTERFACES = {
    "lo": (ip_interface("127.0.0.1/8"), ip_interface("10.0.0.9/32")),
    "bond0": (ip_interface("10.0.0.1/24"), ip_interface("fd00::1/64")),
}
PORTS = tuple(
    RdmaPort(f"mlx5_{number}", 1, "Ethernet", "ACTIVE", "bond0", index, "", (1, index))
    for number, index in enumerate((3, 5))
)


@pytest.fixture
def there(monkeypatch: pytest.MonkeyPatch) -> list[Management]:
    """A node with two GPUs, and two RDMA ports that disagree; the list has for whom ports were looked for."""
    asked = []

    def find_ports(management: Management) -> tuple[RdmaPort, ...]:
        asked.append(management)
        return PORTS

    monkeypatch.setattr(about, "read_interfaces", lambda: INTERFACES)
    monkeypatch.setattr(about, "find_ports", find_ports)
    monkeypatch.setattr(about, "find_gpus", lambda: GPUS)
    monkeypatch.setattr(about, "is_up", lambda interface: interface == "lo")
    monkeypatch.setattr(about, "is_open_to_programs", lambda: False)
    monkeypatch.setattr(about, "obtainable_memlock", lambda _: 65_536)
    monkeypatch.setattr(about, "ephemeral_ports", lambda: (1_024, 65_535))
    monkeypatch.setattr(about, "VERSION", "0.1")
    monkeypatch.setattr(platform, "node", lambda: "gpu-3")
    return asked


def config(address: str) -> Config:
    return Config(agent=AgentConfig(management_address=address), engines={"tgi": EngineConfig(enabled=False)})


def test_all_that_is_found_is_told(there: list[Management]) -> None:
    here = look_around(config("10.0.0.1"), ("vllm", "tgi", "command", "sglang"))
    assert here == About(
        version="0.1",
        node_name="gpu-3",
        management_address="10.0.0.1",
        management_interface="bond0",
        nccl_ib_gid_index=-1,
        rdma=PORTS,
        gpus=GPUS,
        engines=("sglang", "vllm"),
        warnings=(
            "interface bond0, which holds the management address 10.0.0.1, is down",
            "no /dev/infiniband/uverbs*: programs cannot use the RDMA devices (is module ib_uverbs loaded?)",
            (
                "no NCCL_IB_GID_INDEX is passed, since one number is for all ports and theirs differ: "
                "3 on mlx5_0 port 1; 5 on mlx5_1 port 1"
            ),
            (
                "engines can lock 64 KiB of memory, the hard limit of llmgwd, not the infinity of "
                "limit_memlock: RDMA and pinned memory may fail"
            ),
            "GPUs of nvidia and amd: in a spec, indices mean those of nvidia",
        ),
        addresses=("127.0.0.1", "10.0.0.9", "10.0.0.1", "fd00::1"),
        ephemeral_ports=(1_024, 65_535),
    )
    assert here.facts == NodeFacts(
        management_address="10.0.0.1",
        management_interface="bond0",
        nccl_ib_gid_index=-1,
        gpus=GPUS,
        addresses=("127.0.0.1", "10.0.0.9", "10.0.0.1", "fd00::1"),
        ephemeral_ports=(1_024, 65_535),
    )
    (management,) = there
    assert [str(network) for network in management.networks] == ["10.0.0.0/24", "fd00::/64"]


@pytest.mark.usefixtures("there")
def test_engines_are_never_told_the_loopback_interface() -> None:
    here = look_around(config("10.0.0.9"), ())
    assert (here.management_interface, here.facts.management_interface) == ("lo", "")
    assert here.warnings[0] == (
        "the management address 10.0.0.9 is held by lo alone: engines are told no interface"
    )


def unreadable() -> Interfaces:
    raise Unreadable("the interfaces of this node cannot be read: no")


def test_a_node_whose_interfaces_cannot_be_read_says_so_and_is_one_all_the_same(
    there: list[Management], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(about, "read_interfaces", unreadable)
    here = look_around(config("10.0.0.1"), ("vllm",))
    assert (here.management_address, here.management_interface, here.addresses) == ("10.0.0.1", "", ())
    assert [text for text in here.warnings if "interface" in text] == [
        "the interfaces of this node cannot be read: no"
    ]
    assert there == [Management("10.0.0.1", "")]


def test_another_look_asks_for_everything_but_the_gpus(
    there: list[Management], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = look_around(config("10.0.0.1"), ("vllm",))
    monkeypatch.setattr(about, "find_gpus", lambda: ())
    monkeypatch.setattr(about, "is_up", lambda interface: interface == "bond0")
    there.clear()
    again = look_again(config("10.0.0.1"), ("vllm",), before)
    assert again == replace(before, warnings=before.warnings[1:])
    assert before.warnings[0] == "interface bond0, which holds the management address 10.0.0.1, is down"
    assert len(there) == 1


def test_its_version_is_that_of_the_code_that_runs_whatever_is_installed_by_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def gone(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", gone)
    monkeypatch.setattr(about, "version", gone)
    assert look_around(Config(), ()).version == VERSION


def test_this_host_can_be_looked_at() -> None:
    here = look_around(Config(), ("vllm",))
    interfaces = read_interfaces()
    devices = Path("/sys/class/infiniband")
    assert (here.version, here.node_name, here.engines) == (VERSION, platform.node(), ("vllm",))
    assert (here.addresses, here.ephemeral_ports) == (addresses_of(interfaces), ephemeral_ports())
    assert (here.management_address, here.management_interface) == (
        find_management("", interfaces).address,
        find_management("", interfaces).interface,
    )
    assert {port.device for port in here.rdma} == (
        {device.name for device in devices.iterdir()} if devices.exists() else set()
    )
    none = "no RDMA device: traffic between nodes goes over TCP"
    assert (none in here.warnings) == (here.rdma == ())
