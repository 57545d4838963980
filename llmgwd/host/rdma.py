"""The RDMA ports of this node, and the one GID index that serves all of them."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from llmgwd.config import GidIndex
from llmgwd.host.gid_table import ROCE_V2, Gid, best_gid, read_gids
from llmgwd.host.network import Management
from llmgwd.host.sysfs import entries, read

ROOT = Path("/sys/class/infiniband")
USER_ACCESS = Path("/dev/infiniband")
NONE = -1


@dataclass(frozen=True, slots=True)
class RdmaPort:
    """One port of one device.

    `link_layer` "Ethernet" or "InfiniBand", `state` "ACTIVE", "DOWN"…. `interface` is the network interface
    behind it, empty where none is known. `gid_index` is where its table has the best RoCE v2 GID of an IPv4
    address, -1 without one; `gid` is that entry as sysfs writes it, empty without one. `roce_v2`: the indices
    of all its RoCE v2 GIDs, whatever their addresses.
    """

    device: str
    port: int
    link_layer: str
    state: str
    interface: str
    gid_index: int
    gid: str
    roce_v2: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.device} port {self.port}"

    @property
    def active(self) -> bool:
        return self.state == "ACTIVE"

    @property
    def ethernet(self) -> bool:
        return self.link_layer == "Ethernet"

    @property
    def takes_index(self) -> bool:
        """Whether NCCL would use it, and by a GID index: InfiniBand needs none, iWARP has none."""
        return self.active and self.ethernet and bool(self.roce_v2)


def find_ports(management: Management, root: Path = ROOT) -> tuple[RdmaPort, ...]:
    """Every port, in numeric order; none on a node without such devices."""
    return tuple(
        _port(device, port, management)
        for device in entries(root)
        for port in entries(device / "ports")
        if port.name.isdecimal()
    )


def choose_gid_index(ports: Iterable[RdmaPort], setting: GidIndex) -> int:
    """The one index to give NCCL for all ports, -1 for none.

    `setting` is the configuration's. "auto" takes the index that every active RoCE port has, and none where
    they disagree or one has no such entry: the variable is one number for all of them.
    """
    if isinstance(setting, int):
        return setting
    if setting == "off":
        return NONE
    indices = {port.gid_index for port in ports if port.takes_index}
    return indices.pop() if len(indices) == 1 else NONE


def is_open_to_programs(folder: Path = USER_ACCESS) -> bool:
    """Whether there is a device node by which programs reach any RDMA device (ib_uverbs)."""
    return any(file.name.startswith("uverbs") for file in entries(folder))


def _port(device: Path, port: Path, management: Management) -> RdmaPort:
    link_layer = read(port / "link_layer")
    gids = read_gids(port)
    best = best_gid(gids, management) if link_layer == "Ethernet" else None
    return RdmaPort(
        device=device.name,
        port=int(port.name),
        link_layer=link_layer,
        state=read(port / "state").rpartition(":")[2].strip(),  # "4: ACTIVE"
        interface=_interface(device, int(port.name), best, gids),
        gid_index=best.index if best else NONE,
        gid=best.text if best else "",
        roce_v2=tuple(gid.index for gid in gids if gid.kind == ROCE_V2),
    )


def _interface(device: Path, port: int, best: Gid | None, gids: tuple[Gid, ...]) -> str:
    """As the table has it, at the best entry first; else as the device has it, as for InfiniBand."""
    named = (best, *gids) if best else gids
    return next((gid.interface for gid in named if gid.interface), "") or _interface_of_device(device, port)


def _interface_of_device(device: Path, port: int) -> str:
    interfaces = entries(device / "device" / "net")
    # A device with several ports numbers the interfaces of all of them from 0.
    of_port = [each for each in interfaces if read(each / "dev_port") == str(port - 1)]
    chosen = interfaces if len(interfaces) == 1 else of_port
    return chosen[0].name if chosen else ""
