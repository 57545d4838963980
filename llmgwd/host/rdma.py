"""The RDMA ports of this node and their GID tables (Documentation/ABI/stable/sysfs-class-infiniband)."""

import ipaddress
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

ROOT = Path("/sys/class/infiniband")
NONE = -1
DIGITS = re.compile(r"(\d+)")


@dataclass(frozen=True, slots=True)
class RdmaPort:
    """One port of one device.

    `gid_index` is where its table has a RoCE v2 GID of an IPv4 address, -1 without one; `gid` is that entry
    as sysfs writes it, empty without one. `link_layer` "Ethernet" or "InfiniBand", `state` "ACTIVE", "DOWN"….
    `interface` is the network interface behind it, empty where none is known.
    """

    device: str
    port: int
    link_layer: str
    state: str
    interface: str
    gid_index: int
    gid: str


def find_ports(root: Path = ROOT) -> tuple[RdmaPort, ...]:
    """Every port, in numeric order; none on a node without such devices."""
    return tuple(
        _port(device, port)
        for device in _entries(root)
        for port in _entries(device / "ports")
        if port.name.isdecimal()
    )


def choose_gid_index(ports: Iterable[RdmaPort], setting: Literal["auto", "off"] | int) -> int:
    """The one index to give NCCL for all ports, -1 for none.

    `setting` is the configuration's. "auto" takes the index that every active Ethernet port has, and none
    where they disagree or one has no such entry: the variable is one number for all of them.
    """
    if isinstance(setting, int):
        return setting
    if setting == "off":
        return NONE
    active = {port.gid_index for port in ports if (port.link_layer, port.state) == ("Ethernet", "ACTIVE")}
    return active.pop() if len(active) == 1 else NONE


def _port(device: Path, port: Path) -> RdmaPort:
    index, gid = _roce_v2_of_ipv4(port)
    return RdmaPort(
        device=device.name,
        port=int(port.name),
        link_layer=_read(port / "link_layer"),
        state=_read(port / "state").rpartition(":")[2].strip(),  # "4: ACTIVE"
        interface=_interface(device, port, index),
        gid_index=index,
        gid=gid,
    )


def _roce_v2_of_ipv4(port: Path) -> tuple[int, str]:
    """The first such entry of the table; those with a link-local address (169.254.0.0/16) come last."""
    found = []
    for entry in _table(port / "gid_attrs" / "types"):
        if _read(entry) != "RoCE v2":
            continue
        gid = _read(port / "gids" / entry.name)
        address = _ipv4(gid)
        if address is not None:
            found.append((address.is_link_local, int(entry.name), gid))
    return min(found)[1:] if found else (NONE, "")


def _ipv4(gid: str) -> ipaddress.IPv4Address | None:
    """The address in a GID such as 0000:0000:0000:0000:0000:ffff:0a63:3080, 0.0.0.0 being none."""
    try:
        address = ipaddress.IPv6Address(gid).ipv4_mapped
    except ValueError:
        return None
    return None if address is None or address.is_unspecified else address


def _interface(device: Path, port: Path, index: int) -> str:
    """As the table has it, at `index` first; else as the device has it (InfiniBand's tables name none)."""
    table = port / "gid_attrs" / "ndevs"
    entries = [table / str(index), *_table(table)]
    named = next((name for name in map(_read, entries) if name), "")
    return named or _interface_of_device(device, int(port.name))


def _interface_of_device(device: Path, port: int) -> str:
    interfaces = list(_entries(device / "device" / "net"))
    # A device with several ports numbers the interfaces of all of them from 0.
    of_port = [each for each in interfaces if _read(each / "dev_port") == str(port - 1)]
    chosen = interfaces if len(interfaces) == 1 else of_port
    return chosen[0].name if chosen else ""


def _table(folder: Path) -> Iterator[Path]:
    return (entry for entry in _entries(folder) if entry.name.isdecimal())


def _entries(folder: Path) -> list[Path]:
    """What is in it, mlx5_2 before mlx5_10; nothing where it is not there."""
    try:
        return sorted(folder.iterdir(), key=_numerically)
    except OSError:
        return []


def _numerically(path: Path) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in DIGITS.split(path.name)]


def _read(file: Path) -> str:
    """Empty where it cannot be read: entries of a GID table that hold nothing answer EINVAL."""
    try:
        return file.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
