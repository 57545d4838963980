"""The GPUs of this node, as their vendors' own runtimes count them.

AMD's rocm-smi is not asked: it reads the same files, and its numbers need not be those of HIP.
"""

import logging
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from llmgwd.engines.facts import Gpu
from llmgwd.host.sysfs import entries, read

NVIDIA = Path("/proc/driver/nvidia/gpus")
KFD = Path("/sys/class/kfd/kfd/topology/nodes")
DRM = Path("/sys/class/drm")
NVIDIA_SMI = (
    "--query-gpu=index,uuid,name,memory.total",
    "--format=csv,noheader,nounits",
)
MIB = 1 << 20
# A driver that keeps no state between its users initialises each GPU first, a second or two for each.
TIME_LIMIT_S = 15.0
logger = logging.getLogger(__name__)


def find_gpus(
    *,
    nvidia: Path = NVIDIA,
    kfd: Path = KFD,
    drm: Path = DRM,
    search_path: str | None = None,
    time_limit_s: float = TIME_LIMIT_S,
) -> tuple[Gpu, ...]:
    """NVIDIA's, then AMD's; each vendor counts its own from 0. Takes seconds: call it in a thread.

    `search_path` is where nvidia-smi is looked for, by default in PATH.
    """
    return (
        *(_from_nvidia_smi(search_path, time_limit_s) or _from_nvidia_driver(nvidia)),
        *_from_kfd(kfd, drm),
    )


def _from_nvidia_smi(search_path: str | None, time_limit_s: float) -> tuple[Gpu, ...]:
    """Nothing where it is not installed, fails (exit status 9 without the driver) or takes too long."""
    program = shutil.which("nvidia-smi", path=search_path)
    if program is None:
        return ()
    try:
        said = _output_of(program, time_limit_s)
    except (OSError, subprocess.SubprocessError) as error:
        logger.warning("cannot ask %s for the GPUs: %s", program, error)
        return ()
    return tuple(gpu for line in said.splitlines() for gpu in _nvidia_smi_line(line))


def _output_of(program: str, time_limit_s: float) -> str:
    child = subprocess.Popen(
        [program, *NVIDIA_SMI],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        said, _ = child.communicate(timeout=time_limit_s)
    except subprocess.TimeoutExpired:
        child.kill()
        _leave(child)
        raise
    if child.returncode:
        raise subprocess.CalledProcessError(child.returncode, program)
    return said.decode(errors="replace")


def _leave(child: subprocess.Popen[bytes]) -> None:
    """Reap it if it dies now. One that hangs in the driver does not, and nobody may hang with it."""
    if child.stdout:
        child.stdout.close()
    try:
        child.wait(timeout=1.0)
    except subprocess.TimeoutExpired:
        pass


def _nvidia_smi_line(line: str) -> Iterator[Gpu]:
    """`0, GPU-5f…, NVIDIA H100 80GB HBM3, 81559`; a line of another form, as of a lost GPU, gives nothing."""
    index, _, rest = line.partition(",")
    uuid, _, rest = rest.partition(",")
    name, comma, memory = rest.rpartition(",")
    if not comma or not index.strip().isdecimal():
        return
    mib = memory.strip()  # "[N/A]" where GPU and processor share it
    yield Gpu(int(index), uuid.strip(), name.strip(), "nvidia", int(mib) * MIB if mib.isdecimal() else 0)


def _from_nvidia_driver(root: Path) -> tuple[Gpu, ...]:
    """One folder a GPU, named by its address on the bus, which is the order of nvidia-smi's indices."""
    # In hexadecimal: numbers in them are no numbers.
    folders = sorted(entries(root), key=lambda folder: (len(folder.name), folder.name))
    files = [_fields(folder / "information", ":") for folder in folders]
    there = [fields for fields in files if fields and fields.get("GPU Excluded") != "Yes"]
    return tuple(
        Gpu(index, _known(fields.get("GPU UUID", "")), fields.get("Model", ""), "nvidia", 0)
        for index, fields in enumerate(there)
    )


def _known(uuid: str) -> str:
    return "" if "?" in uuid else uuid  # the driver has not looked yet


def _from_kfd(nodes: Path, drm: Path) -> tuple[Gpu, ...]:
    """The nodes with compute units, in the order in which ROCm numbers them (libhsakmt, topology.c)."""
    folders = [folder for folder in entries(nodes) if folder.name.isdecimal()]
    found = [(folder, _fields(folder / "properties", " ")) for folder in folders]
    there = [(folder, fields) for folder, fields in found if _number(fields.get("simd_count", ""))]
    gpus = [_kfd_gpu(index, folder, fields, drm) for index, (folder, fields) in enumerate(there)]
    # Where an older kernel gives each part of a GPU (MI300 in CPX mode) the id of the whole, it names none.
    holders = Counter(gpu.uuid for gpu in gpus)
    return tuple(gpu if holders[gpu.uuid] == 1 else replace(gpu, uuid="") for gpu in gpus)


def _kfd_gpu(index: int, node: Path, fields: Mapping[str, str], drm: Path) -> Gpu:
    device = drm / f"renderD{fields.get('drm_render_minor', '')}" / "device"
    unique = _number(fields.get("unique_id", ""))
    return Gpu(
        index=index,
        uuid=f"GPU-{unique:016x}" if unique else "",  # as ROCr writes it (HSA_AMD_AGENT_INFO_UUID)
        name=read(device / "product_name") or read(node / "name"),
        vendor="amd",
        memory_bytes=_number(read(device / "mem_info_vram_total")) or _memory_of(node),
    )


def _memory_of(node: Path) -> int:
    """What its banks of the GPU's own memory hold (heap types 1 and 2, hsakmttypes.h)."""
    banks = [_fields(bank / "properties", " ") for bank in entries(node / "mem_banks")]
    return sum(
        _number(bank.get("size_in_bytes", "")) for bank in banks if bank.get("heap_type") in ("1", "2")
    )


def _fields(file: Path, separator: str) -> dict[str, str]:
    parts = (line.partition(separator) for line in read(file).splitlines())
    return {name.strip(): value.strip() for name, _, value in parts}


def _number(text: str) -> int:
    return int(text) if text.isdecimal() else 0
