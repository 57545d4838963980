"""What engines have to be told about the node that they run on; host/ finds it out."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

# Of Linux, where nobody has set others (ip(7), ip_local_port_range).
USUAL_EPHEMERAL_PORTS: Final = (32_768, 60_999)


@dataclass(frozen=True, slots=True)
class Gpu:
    """`uuid` empty and `memory_bytes` 0 where they are not known. `vendor`: "nvidia" or "amd"."""

    index: int
    uuid: str
    name: str
    vendor: str
    memory_bytes: int


def find_gpu(name: str, gpus: Iterable[Gpu]) -> Gpu | None:
    """The one of that index or UUID; the beginning of a UUID will do, as for CUDA, where it is only one's."""
    if name.isdigit():
        return next((gpu for gpu in gpus if str(gpu.index) == name), None)
    found = [gpu for gpu in gpus if gpu.uuid.startswith(name)]
    if len(found) == 1:
        return found[0]
    return next((gpu for gpu in found if gpu.uuid == name), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """`management_address` and `management_interface` are empty where the node has none.

    `nccl_ib_gid_index` -1: none. `addresses`: every one that the node holds. `ephemeral_ports`: the first and
    the last of those that the kernel gives to whoever does not ask for one.
    """

    management_address: str
    management_interface: str
    nccl_ib_gid_index: int = -1
    gpus: tuple[Gpu, ...] = ()
    addresses: tuple[str, ...] = ()
    ephemeral_ports: tuple[int, int] = USUAL_EPHEMERAL_PORTS

    @property
    def gpu_vendor(self) -> str:
        """Empty where no GPU was found."""
        return self.gpus[0].vendor if self.gpus else ""
