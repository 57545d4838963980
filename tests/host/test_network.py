import socket
from collections.abc import Mapping
from dataclasses import dataclass
from socket import AddressFamily

import psutil
import pytest

from llmgwd.host.network import Management, default_source_address, find_management, interface_of


@dataclass
class Held:
    address: str


HELD: Mapping[str, list[Held]] = {
    "lo": [Held("127.0.0.1"), Held("::1"), Held("10.0.0.77"), Held("00:00:00:00:00:00")],
    "eth0": [Held("10.0.0.1"), Held("fd00::1"), Held("fe80::1%eth0"), Held("02:fc:00:00:00:01")],
    "bond0": [Held("10.0.0.77")],
    "eth1:3": [Held("10.0.0.3")],
}


def found(configured: str, **sources: str) -> Management:
    return find_management(
        configured,
        source_address=lambda family: sources.get(family.name, ""),
        addresses=lambda: HELD,
    )


def test_the_default_route_tells_the_address() -> None:
    assert found("", AF_INET="10.0.0.1", AF_INET6="fd00::1") == Management("10.0.0.1", "eth0")


def test_ipv6_is_asked_where_ipv4_has_no_route() -> None:
    assert found("", AF_INET6="fd00::1") == Management("fd00::1", "eth0")


def test_without_a_route_there_is_none() -> None:
    assert found("") == Management("", "")


def test_the_configured_address_wins() -> None:
    assert found("10.0.0.77", AF_INET="10.0.0.1") == Management("10.0.0.77", "bond0")


@pytest.mark.parametrize("configured", ["10.9.9.9", "node.example"])
def test_a_configured_address_that_no_interface_holds_has_none(configured: str) -> None:
    assert found(configured, AF_INET="10.0.0.1") == Management(configured, "")


@pytest.mark.parametrize(
    ("address", "interface"),
    [
        ("FD00:0::0001", "eth0"),
        ("fe80::1", "eth0"),
        ("127.0.0.1", "lo"),
        ("10.0.0.77", "bond0"),
        ("10.0.0.3", "eth1"),
        ("02:fc:00:00:00:01", ""),
    ],
)
def test_an_address_is_known_however_it_is_written(address: str, interface: str) -> None:
    assert interface_of(address, HELD) == interface


class Routed:
    """A socket on a host whose default route has one source address; an empty one is no route."""

    def __init__(self, source: str) -> None:
        self.source = source

    def __call__(self, family: AddressFamily, kind: int) -> "Routed":
        assert kind == socket.SOCK_DGRAM
        return self

    def __enter__(self) -> "Routed":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def connect(self, _: object) -> None:
        if not self.source:
            raise OSError(101, "Network is unreachable")

    def getsockname(self) -> tuple[object, ...]:
        return (self.source, 40000, 0, 0)


@pytest.mark.parametrize(
    ("source", "address"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("fd00::1", "fd00::1"),
        ("fe80::1%eth0", ""),
        ("169.254.3.4", ""),
        ("127.0.0.1", ""),
        ("0.0.0.0", ""),
        ("", ""),
    ],
)
def test_a_source_that_others_cannot_use_is_none(
    source: str, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "socket", Routed(source))
    assert default_source_address(AddressFamily.AF_INET6) == address


def test_this_hosts_own_address_is_held_by_the_interface_that_is_named() -> None:
    management = find_management("")
    held = psutil.net_if_addrs()
    assert management == Management("", "") or management.address in [
        entry.address for entry in held[management.interface]
    ]
