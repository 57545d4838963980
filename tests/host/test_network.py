import socket
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_interface, ip_network
from pathlib import Path
from socket import AddressFamily

import psutil
import pytest

from llmgwd.host.network import (
    Management,
    Unreadable,
    addresses_of,
    default_source_address,
    ephemeral_ports,
    find_management,
    is_up,
    read_interfaces,
)

USUAL = (32_768, 60_999)


@dataclass
class Entry:
    address: str
    netmask: str | None = None


ENTRIES: Mapping[str, list[Entry]] = {
    "lo": [
        Entry("127.0.0.1", "255.0.0.0"),
        Entry("::1", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
        Entry("10.0.0.77", "255.255.255.255"),
        Entry("10.0.0.99"),
        Entry("00:00:00:00:00:00"),
    ],
    "eth0": [
        Entry("192.168.7.1", "255.255.255.0"),
        Entry("10.0.0.1", "255.255.252.0"),
        Entry("FD00:0::0001", "ffff:ffff:ffff:ffff::"),
        Entry("fe80::1%eth0", "ffff:ffff:ffff:ffff::"),
        Entry("02:fc:00:00:00:01"),
    ],
    "bond0": [Entry("10.0.0.77", "255.255.255.0")],
    "eth1": [Entry("02:fc:00:00:00:02")],
    "eth1:3": [Entry("10.0.3.3", "255.255.255.0")],
    "ens1f0.100": [Entry("10.100.0.1", "255.255.0.0")],
    "br0": [Entry("10.200.0.1", "255.255.255.0")],
    "ppp0": [Entry("10.3.0.1")],
}
INTERFACES = read_interfaces(lambda: ENTRIES)
ETH0_REST = ("192.168.7.0/24", "fd00::/64", "fe80::/64")


def found(configured: str, **sources: str) -> Management:
    return find_management(configured, INTERFACES, source_address=lambda family: sources.get(family.name, ""))


def management(address: str, interface: str, *networks: str) -> Management:
    return Management(address, interface, tuple(map(ip_network, networks)))


def test_an_interface_has_its_addresses_with_their_networks() -> None:
    assert read_interfaces(lambda: ENTRIES) == {
        "lo": tuple(map(ip_interface, ("127.0.0.1/8", "::1/128", "10.0.0.77/32", "10.0.0.99/32"))),
        "eth0": tuple(map(ip_interface, ("192.168.7.1/24", "10.0.0.1/22", "fd00::1/64", "fe80::1/64"))),
        "bond0": (ip_interface("10.0.0.77/24"),),
        "eth1": (ip_interface("10.0.3.3/24"),),
        "ens1f0.100": (ip_interface("10.100.0.1/16"),),
        "br0": (ip_interface("10.200.0.1/24"),),
        "ppp0": (ip_interface("10.3.0.1/32"),),
    }


def test_the_default_route_tells_the_address() -> None:
    expected = management("10.0.0.1", "eth0", "10.0.0.0/22", *ETH0_REST)
    assert found("", AF_INET="10.0.0.1", AF_INET6="fd00::1") == expected


def test_ipv6_is_asked_where_ipv4_has_no_route() -> None:
    networks = ("fd00::/64", "192.168.7.0/24", "10.0.0.0/22", "fe80::/64")
    assert found("", AF_INET6="fd00::1") == management("fd00::1", "eth0", *networks)


def test_without_a_route_there_is_none() -> None:
    assert found("") == Management("", "", ())


def test_the_configured_address_wins() -> None:
    assert found("10.3.0.1", AF_INET="10.0.0.1") == management("10.3.0.1", "ppp0", "10.3.0.1/32")


@pytest.mark.parametrize("configured", ["10.9.9.9", "node.example", "02:fc:00:00:00:01"])
def test_a_configured_address_that_no_interface_holds_has_none(configured: str) -> None:
    assert found(configured, AF_INET="10.0.0.1") == Management(configured, "", ())


@pytest.mark.parametrize(
    ("address", "interface"),
    [
        ("10.0.0.77", "bond0"),  # on lo, too
        ("10.100.0.1", "ens1f0.100"),
        ("10.200.0.1", "br0"),
        ("10.0.3.3", "eth1"),
        ("10.0.0.99", "lo"),
        ("127.0.0.1", "lo"),
        ("fd00:0:0::1", "eth0"),
        ("fe80::1", "eth0"),
        ("fe80::1%eth0", "eth0"),
    ],
)
def test_whatever_holds_the_address_is_the_interface(address: str, interface: str) -> None:
    assert (found(address).address, found(address).interface) == (address, interface)


def test_all_addresses_of_the_node_are_told_once() -> None:
    assert addresses_of(INTERFACES) == (
        "127.0.0.1", "::1", "10.0.0.77", "10.0.0.99",
        "192.168.7.1", "10.0.0.1", "fd00::1", "fe80::1",
        "10.0.3.3", "10.100.0.1", "10.200.0.1", "10.3.0.1",
    )  # fmt: skip


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


def test_this_hosts_interfaces_are_those_of_the_kernel_and_one_holds_its_own_address() -> None:
    interfaces = read_interfaces()
    held = psutil.net_if_addrs()
    assert set(interfaces) == {label.partition(":")[0] for label in held}
    assert ip_interface("127.0.0.1/8") in interfaces["lo"]
    here = find_management("", interfaces)
    holders = [
        label.partition(":")[0]
        for label, entries in held.items()
        if here.address in [entry.address for entry in entries]
    ]
    assert here.interface in (holders or [""])
    assert (here.address == "") == (
        default_source_address(AddressFamily.AF_INET) == default_source_address(AddressFamily.AF_INET6) == ""
    )


NO_UTF8 = b"x\xffy"
# Of an interface with such a name, of a kernel that has run out of something, of psutil itself.
ERRORS = [
    (
        UnicodeDecodeError("utf-8", NO_UTF8, 1, 2, "invalid start byte"),
        "'utf-8' codec can't decode byte 0xff in position 1: invalid start byte",
    ),
    (OSError(24, "Too many open files"), "[Errno 24] Too many open files"),
    (psutil.AccessDenied(msg="no"), "no"),
]


@pytest.mark.parametrize(("error", "why"), ERRORS)
def test_interfaces_that_cannot_be_read_are_said_to_be_so(error: Exception, why: str) -> None:
    def addresses() -> Mapping[str, list[Entry]]:
        raise error

    with pytest.raises(Unreadable) as refusal:
        read_interfaces(addresses)
    assert str(refusal.value) == f"the interfaces of this node cannot be read: {why}"


@pytest.mark.parametrize("error", [error for error, _ in ERRORS])
def test_an_interface_of_which_nothing_can_be_read_is_not_known_to_be_up(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stats() -> object:
        raise error

    monkeypatch.setattr(psutil, "net_if_stats", stats)
    assert not is_up("lo")


def test_an_interface_that_is_not_there_is_not_up() -> None:
    assert (is_up("lo"), is_up("none0"), is_up("")) == (psutil.net_if_stats()["lo"].isup, False, False)


@pytest.mark.parametrize(
    ("text", "ports"),
    [
        ("1024\t65535\n", (1024, 65_535)),
        ("", USUAL),
        ("32768", USUAL),
        ("a b", USUAL),
        ("1 2 3", USUAL),
        ("é", USUAL),
    ],
)
def test_the_ephemeral_ports_are_read_or_the_usual_ones(
    tmp_path: Path, text: str, ports: tuple[int, int]
) -> None:
    file = tmp_path / "ip_local_port_range"
    file.write_text(text)
    assert ephemeral_ports(file) == ports


def test_a_kernel_that_does_not_tell_its_ephemeral_ports_has_the_usual_ones(tmp_path: Path) -> None:
    assert ephemeral_ports(tmp_path / "none") == USUAL
