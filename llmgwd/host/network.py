"""Which address and which interface of this node its other nodes reach it by."""

import ipaddress
import socket
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from socket import AddressFamily
from typing import Protocol

import psutil

# Public addresses that hardly any host routes otherwise than by default. Nothing is sent to them: connecting
# a datagram socket only chooses the route and with it the source address (connect(2), udp(7)).
ELSEWHERE = {AddressFamily.AF_INET: "8.8.8.8", AddressFamily.AF_INET6: "2001:4860:4860::8888"}


class InterfaceAddress(Protocol):
    """As psutil.net_if_addrs has them."""

    @property
    def address(self) -> str: ...


Addresses = Mapping[str, Iterable[InterfaceAddress]]


@dataclass(frozen=True, slots=True)
class Management:
    """Both are empty on a node without a default route, the interface alone where none holds the address."""

    address: str
    interface: str


def default_source_address(family: AddressFamily) -> str:
    """What this node calls itself towards the rest of the world; empty without a route there."""
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((ELSEWHERE[family], 9))
            address = str(probe.getsockname()[0])
    except OSError:  # no route, or a kernel without this family
        return ""
    parsed = _parsed(address)
    # Others could not use a link-local or loopback one, and 0.0.0.0 nobody.
    useless = parsed is None or parsed.is_link_local or parsed.is_loopback or parsed.is_unspecified
    return "" if useless else address


def find_management(
    configured: str,
    *,
    source_address: Callable[[AddressFamily], str] = default_source_address,
    addresses: Callable[[], Addresses] = psutil.net_if_addrs,
) -> Management:
    """The configured address, or the one that the default route uses, IPv4 before IPv6."""
    address = configured or source_address(AddressFamily.AF_INET) or source_address(AddressFamily.AF_INET6)
    return Management(address, interface_of(address, addresses()) if address else "")


def interface_of(address: str, addresses: Addresses) -> str:
    """The interface that holds the address, empty if none does; the loopback one only if no other does."""
    wanted = _parsed(address)
    if wanted is None:  # a name: whose address it is may change
        return ""
    holders = [
        interface.partition(":")[0]  # eth0:1 is a label of an address of eth0
        for interface, held in addresses.items()
        if any(_parsed(entry.address) == wanted for entry in held)
    ]
    return min(holders, key=lambda interface: interface == "lo", default="")


def _parsed(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Without the zone, which only says on which interface a link-local address is meant."""
    try:
        return ipaddress.ip_address(address.partition("%")[0])
    except ValueError:  # a name, or the address of a link layer
        return None
