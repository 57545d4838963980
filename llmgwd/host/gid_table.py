"""The GID table of one RDMA port (Documentation/ABI/stable/sysfs-class-infiniband)."""

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path

from llmgwd.host.network import Management
from llmgwd.host.sysfs import entries, read

ROCE_V2 = "RoCE v2"


@dataclass(frozen=True, slots=True)
class Gid:
    """One entry. `text` is the GID as sysfs writes it, `interface` empty where none is named."""

    index: int
    kind: str
    text: str
    interface: str

    @property
    def ipv4(self) -> IPv4Address | None:
        """Of 0000:0000:0000:0000:0000:ffff:0a63:3080 it is 10.99.48.128; 0.0.0.0 is none."""
        try:
            address = ipaddress.IPv6Address(self.text).ipv4_mapped
        except ValueError:
            return None
        return None if address is None or address.is_unspecified else address


def read_gids(port: Path) -> tuple[Gid, ...]:
    """Those that hold something, in numeric order. Tables are up to 256 long and sparse."""
    kinds = ((entry.name, read(entry)) for entry in entries(port / "gid_attrs/types"))
    return tuple(
        Gid(int(index), kind, read(port / "gids" / index), read(port / "gid_attrs/ndevs" / index))
        for index, kind in kinds
        if index.isdecimal() and kind  # where there is nothing, reading gives EINVAL
    )


def best_gid(gids: Iterable[Gid], management: Management) -> Gid | None:
    """The entry of RoCE v2 and IPv4 by which other nodes are the likeliest to reach this one.

    That is the one of the management address, then one of its network, then another one of its interface,
    then any, and what nobody gave it (169.254.0.0/16) last; of equals the first.
    """
    usable = [gid for gid in gids if gid.kind == ROCE_V2 and gid.ipv4 is not None]
    return min(usable, key=lambda gid: (_distance(gid, management), gid.index), default=None)


def _distance(gid: Gid, management: Management) -> int:
    address = gid.ipv4
    if str(address) == management.address:
        return 0
    if any(address in network for network in management.networks[:1]):
        return 1
    if address is None or address.is_link_local:
        return 4
    if gid.interface and gid.interface == management.interface:
        return 2
    return 2 if any(address in network for network in management.networks) else 3
