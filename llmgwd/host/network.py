"""The addresses of this node, and which of them its other nodes reach it by."""

import ipaddress
import socket
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Interface, IPv4Network, IPv6Interface, IPv6Network
from pathlib import Path
from socket import AddressFamily
from typing import Protocol

import psutil

from llmgwd.engines.facts import USUAL_EPHEMERAL_PORTS
from llmgwd.model.addresses import parsed

# Public addresses that hardly any host routes otherwise than by default. Nothing is sent to them: connecting
# a datagram socket only chooses the route and with it the source address (connect(2), udp(7)).
ELSEWHERE = {AddressFamily.AF_INET: "8.8.8.8", AddressFamily.AF_INET6: "2001:4860:4860::8888"}
LOOPBACK = "lo"
PORT_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")  # of IPv6, too
# A name of an interface may be any bytes; psutil 5.9 raises UnicodeDecodeError where it is no UTF-8.
UNREADABLE = (OSError, ValueError, psutil.Error)

Network = IPv4Network | IPv6Network
Held = IPv4Interface | IPv6Interface
Interfaces = Mapping[str, tuple[Held, ...]]


class InterfaceAddress(Protocol):
    """As psutil.net_if_addrs has them."""

    @property
    def address(self) -> str: ...

    @property
    def netmask(self) -> str | None: ...


class Unreadable(Exception):  # noqa: N818
    """Says in a sentence why nothing is known of this node's interfaces."""


@dataclass(frozen=True, slots=True)
class Management:
    """`address` is empty on a node without a default route, `interface` where none holds the address.

    `networks` are those of the interface, that of the address itself before the others.
    """

    address: str
    interface: str
    networks: tuple[Network, ...] = ()


def read_interfaces(
    addresses: Callable[[], Mapping[str, Iterable[InterfaceAddress]]] = psutil.net_if_addrs,
) -> Interfaces:
    """The addresses of each interface, with their networks; those of link layers are left out.

    Raises Unreadable.
    """
    try:
        listed = addresses()
    except UNREADABLE as error:
        raise Unreadable(f"the interfaces of this node cannot be read: {error}") from error
    found: dict[str, tuple[Held, ...]] = {}
    for label, entries in listed.items():
        name = label.partition(":")[0]  # eth0:1 is a label of an address of eth0
        held = tuple(one for entry in entries for one in _held(entry))
        found[name] = found.get(name, ()) + held
    return found


def default_source_address(family: AddressFamily) -> str:
    """What this node calls itself towards the rest of the world; empty without a route there."""
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((ELSEWHERE[family], 9))
            address = str(probe.getsockname()[0])
    except OSError:  # no route, or a kernel without this family
        return ""
    source = parsed(address)
    # Others could not use a link-local or loopback one, and 0.0.0.0 nobody.
    useless = source is None or source.is_link_local or source.is_loopback or source.is_unspecified
    return "" if useless else address


def find_management(
    configured: str,
    interfaces: Interfaces,
    *,
    source_address: Callable[[AddressFamily], str] = default_source_address,
) -> Management:
    """The configured address, or the one that the default route uses, IPv4 before IPv6."""
    address = configured or source_address(AddressFamily.AF_INET) or source_address(AddressFamily.AF_INET6)
    wanted = parsed(address)
    holders = [name for name, held in interfaces.items() if any(one.ip == wanted for one in held)]
    if not holders:  # nobody's, or a name, and whose that is may change
        return Management(address, "")
    interface = min(holders, key=lambda name: name == LOOPBACK)
    held = sorted(interfaces[interface], key=lambda one: one.ip != wanted)
    return Management(address, interface, tuple(dict.fromkeys(one.network for one in held)))


def addresses_of(interfaces: Interfaces) -> tuple[str, ...]:
    """All that this node holds, each once and in its usual form, without a zone."""
    return tuple(dict.fromkeys(str(one.ip) for held in interfaces.values() for one in held))


def is_up(interface: str) -> bool:
    """Whether it is known to carry something now: it is switched on and has a link."""
    try:
        state = psutil.net_if_stats().get(interface)
    except UNREADABLE:  # as for read_interfaces, which says so
        return False
    return state is not None and state.isup


def ephemeral_ports(file: Path = PORT_RANGE) -> tuple[int, int]:
    """The first and the last port that the kernel gives to whoever does not ask for one (ip(7))."""
    try:
        first, last = map(int, file.read_text(encoding="ascii").split())
    except (OSError, ValueError):
        return USUAL_EPHEMERAL_PORTS
    return first, last


def _held(entry: InterfaceAddress) -> Iterable[Held]:
    address = parsed(entry.address)
    if address is None:  # of a link layer
        return
    whole = address.max_prefixlen
    mask = parsed(entry.netmask or "")  # of IPv6 too it comes as an address: ffff:ffff:ffff:ffff::
    length = whole if mask is None or mask.version != address.version else int(mask).bit_count()
    yield ipaddress.ip_interface((address, length))
