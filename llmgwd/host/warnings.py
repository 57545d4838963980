"""What looks wrong on this node, a sentence each: it may be right, and nothing is refused for it."""

from collections.abc import Iterable, Iterator, Sequence

from llmgwd.config import GidIndex, Limit
from llmgwd.engines.facts import Gpu
from llmgwd.host.network import LOOPBACK, Management
from llmgwd.host.rdma import RdmaPort
from llmgwd.model.addresses import is_unusable, parsed

REMEDY = "set management_address in [agent] of the configuration"


def of_management(management: Management, *, up: bool) -> Iterator[str]:
    """`up`: whether its interface is."""
    address, interface = management.address, management.interface
    if not address:
        yield f"no management address, as there is no default route: {REMEDY}"
    elif is_unusable(address):
        yield f"the management address {address} is none by which other nodes reach this one: {REMEDY}"
    elif not interface and parsed(address) is None:
        yield f"the management address {address} is a name: engines are told no interface"
    elif not interface:
        yield f"the management address {address} is held by no interface of this node"
    elif interface == LOOPBACK:
        # NCCL and Gloo take the first address of an interface, and of this one that is 127.0.0.1.
        yield f"the management address {address} is held by {interface} alone: engines are told no interface"
    elif not up:
        yield f"interface {interface}, which holds the management address {address}, is down"


def of_rdma(ports: Sequence[RdmaPort], setting: GidIndex, *, open_to_programs: bool) -> Iterator[str]:
    """`setting`: nccl_ib_gid_index of the configuration."""
    if not ports:
        yield "no RDMA device: traffic between nodes goes over TCP"
        return
    if not any(port.active for port in ports):
        yield "no RDMA port is active: traffic between nodes goes over TCP"
    if not open_to_programs:
        yield "no /dev/infiniband/uverbs*: programs cannot use the RDMA devices (is module ib_uverbs loaded?)"
    for port in ports:
        yield from _of_port(port, setting)
    if isinstance(setting, int):
        yield from _of_configured_index(ports, setting)
    elif setting == "auto":
        yield from _of_disagreement(ports)


def of_memlock(configured: Limit, obtainable: Limit) -> Iterator[str]:
    if obtainable != configured:
        yield (
            f"engines can lock {_size(obtainable)} of memory, the hard limit of llmgwd, not the "
            f"{_size(configured)} of limit_memlock: RDMA and pinned memory may fail"
        )


def of_gpus(gpus: Iterable[Gpu]) -> Iterator[str]:
    vendors = list(dict.fromkeys(gpu.vendor for gpu in gpus))
    if len(vendors) > 1:
        yield f"GPUs of {' and '.join(vendors)}: in a spec, indices mean those of {vendors[0]}"


def _of_port(port: RdmaPort, setting: GidIndex) -> Iterator[str]:
    if not (port.active and port.ethernet) or port.gid_index >= 0 or setting in port.roce_v2:
        return
    behind = f", interface {port.interface}" if port.interface else ""
    if port.roce_v2:
        yield f"RDMA device {port.name} is active without a RoCE v2 GID of an IPv4 address{behind}"
    else:
        yield f"RDMA device {port.name} is active without any RoCE v2 GID, as iWARP is{behind}"


def _of_configured_index(ports: Iterable[RdmaPort], index: int) -> Iterator[str]:
    users = [port for port in ports if port.takes_index]
    without = [port.name for port in users if index not in port.roce_v2]
    if not users:
        yield f"nccl_ib_gid_index is {index}, but there is no active RoCE port"
    elif without:
        yield f"nccl_ib_gid_index is {index}, but there is no RoCE v2 GID at it on {', '.join(without)}"


def _of_disagreement(ports: Iterable[RdmaPort]) -> Iterator[str]:
    places: dict[int, list[str]] = {}
    for port in ports:
        if port.takes_index:
            places.setdefault(port.gid_index, []).append(port.name)
    if len(places) > 1:
        each = "; ".join(
            f"{index if index >= 0 else 'none'} on {', '.join(names)}" for index, names in places.items()
        )
        yield f"no NCCL_IB_GID_INDEX is passed, since one number is for all ports and theirs differ: {each}"


def _size(limit: Limit) -> str:
    return "infinity" if limit == "infinity" else f"{limit // 1024} KiB"
