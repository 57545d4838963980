"""Addresses as they are written: what is an IP address, and what leads nowhere else. No name is looked up."""

import ipaddress
import re
from ipaddress import IPv4Address, IPv6Address
from typing import Final

Address = IPv4Address | IPv6Address

# Of the loopback in /etc/hosts of Debian and its like, beside localhost.
OTHER_NAMES_OF_LOOPBACK: Final = ("ip6-localhost", "ip6-loopback")
NAME: Final = re.compile(r"[0-9A-Za-z_][0-9A-Za-z._-]*")
NUMBER: Final = r"(?:0[xX][0-9A-Fa-f]*|[0-9]+)"
NUMERIC: Final = re.compile(rf"{NUMBER}(?:\.{NUMBER})*\.?")
IPV6: Final = re.compile(r"[0-9A-Fa-f:.]+(?:%[0-9A-Za-z._-]+)?")
PEER: Final = re.compile(r"(?:\[(?P<ipv6>[^\]]*:[^\]]*)\]|(?P<other>[^:\[\]]+))(?::(?P<port>[0-9]{1,5}))?")


def parsed(text: str) -> Address | None:
    """The address that it is to compare by; None for what is none, such as a name.

    Without the zone, which only says on which interface a link-local address is meant; ::ffff:10.0.0.1 is
    10.0.0.1 (RFC 4291, 2.5.5.2).
    """
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    if isinstance(address, IPv4Address):
        return address
    return address.ipv4_mapped or IPv6Address(int(address))


def is_ipv6(text: str) -> bool:
    """Whether it is written as one, so that it takes brackets before a port."""
    return ":" in text


def is_unusable(text: str) -> bool:
    """Whether other nodes could not reach anybody by it: none, a loopback address, one that means all."""
    address = parsed(text)
    if address is not None:
        return address.is_loopback or address.is_unspecified
    name = text.lower().removesuffix(".")
    # RFC 6761, 6.3
    return not name or f".{name}".endswith(".localhost") or name in OTHER_NAMES_OF_LOOPBACK


def is_host(text: str) -> bool:
    """Whether it is an IP address, or may be a name."""
    return bool(NAME.fullmatch(text)) or (bool(IPV6.fullmatch(text)) and parsed(text) is not None)


def is_shorthand(text: str) -> bool:
    """What C's libraries take for an IPv4 address and others for a name: 127.1, 0x7f000001 (inet_aton(3))."""
    return bool(NUMERIC.fullmatch(text)) and parsed(text) is None


def host_and_port(peer: str) -> tuple[str, str]:
    """`10.0.0.2:50052`, `[fd00::2]:50052`; without a port the second is empty, and all is the host."""
    parts = PEER.fullmatch(peer)
    if parts is None:
        return peer, ""
    return parts["ipv6"] or parts["other"], parts["port"] or ""
