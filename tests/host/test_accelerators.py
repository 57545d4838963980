import logging
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from llmgwd.engines.facts import Gpu
from llmgwd.host.accelerators import find_gpus

H100 = "GPU-5f3c9bd4-0a51-6c1d-9b0a-000000000001"
MIB = 1 << 20

Finder = Callable[..., tuple[Gpu, ...]]


@pytest.fixture
def find(tmp_path: Path) -> Finder:
    """find_gpus on a node whose /proc, /sys and PATH are in tmp_path, and empty until a test adds to them."""

    def found(*, time_limit_s: float = 30.0) -> tuple[Gpu, ...]:
        return find_gpus(
            nvidia=tmp_path / "nvidia",
            kfd=tmp_path / "kfd",
            drm=tmp_path / "drm",
            search_path=str(tmp_path / "bin"),
            time_limit_s=time_limit_s,
        )

    return found


def add_nvidia_smi(root: Path, script: str) -> None:
    program = root / "bin/nvidia-smi"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def add_nvidia_driver(root: Path, address: str, uuid: str, excluded: str = "No") -> None:
    folder = root / "nvidia" / address
    folder.mkdir(parents=True)
    (folder / "information").write_text(
        f"Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 42\nGPU UUID: \t {uuid}\n"
        f"Bus Location: \t {address}\nDevice Minor: \t 0\nGPU Excluded:\t {excluded}\n"
    )


def add_kfd_node(root: Path, node: int, name: str, **properties: int) -> Path:
    folder = root / "kfd" / str(node)
    folder.mkdir(parents=True)
    (folder / "name").write_text(f"{name}\n")
    (folder / "properties").write_text("".join(f"{key} {value}\n" for key, value in properties.items()))
    return folder


def add_render_node(root: Path, minor: int, **files: object) -> None:
    device = root / f"drm/renderD{minor}/device"
    device.mkdir(parents=True)
    for name, content in files.items():
        (device / name).write_text(f"{content}\n")


def test_a_node_without_gpus_has_none(find: Finder) -> None:
    assert find() == ()


def test_nvidia_smi_is_asked_first(find: Finder, tmp_path: Path) -> None:
    add_nvidia_driver(tmp_path, "0000:3b:00.0", H100)
    add_nvidia_smi(
        tmp_path,
        """test "$*" = "--query-gpu=index,uuid,name,memory.total --format=csv,noheader,nounits" || exit 2
        echo '0, GPU-a, NVIDIA H100 80GB HBM3, 81559'
        echo '1, GPU-b, Odd, with a comma, [N/A]'
        echo
        echo 'Unable to determine the device handle for GPU2: 0000:5E:00.0: GPU is lost.'""",
    )
    assert find() == (
        Gpu(0, "GPU-a", "NVIDIA H100 80GB HBM3", "nvidia", 81559 * MIB),
        Gpu(1, "GPU-b", "Odd, with a comma", "nvidia", 0),
    )


def test_the_driver_tells_what_nvidia_smi_does_not(find: Finder, tmp_path: Path) -> None:
    add_nvidia_driver(tmp_path, "0000:d8:00.0", "GPU-????????-????-????-????-????????????")
    add_nvidia_driver(tmp_path, "0000:3b:00.0", H100)
    expected = (
        Gpu(0, H100, "NVIDIA H100 80GB HBM3", "nvidia", 0),
        Gpu(1, "", "NVIDIA H100 80GB HBM3", "nvidia", 0),
    )
    assert find() == expected
    add_nvidia_smi(tmp_path, "echo 'NVIDIA-SMI has failed because …'; exit 9")
    assert find() == expected


def test_the_drivers_gpus_are_counted_as_they_lie_on_the_bus(find: Finder, tmp_path: Path) -> None:
    for address in ("10000:01:00.0", "0000:b0:00.0", "0000:10:00.0", "0000:1b:00.0"):
        add_nvidia_driver(tmp_path, address, f"GPU-{address}")
    add_nvidia_driver(tmp_path, "0000:11:00.0", "GPU-none", excluded="Yes")
    (tmp_path / "nvidia/0000:12:00.0").mkdir()  # a GPU that has gone
    assert [(gpu.index, gpu.uuid) for gpu in find()] == [
        (0, "GPU-0000:10:00.0"),
        (1, "GPU-0000:1b:00.0"),
        (2, "GPU-0000:b0:00.0"),
        (3, "GPU-10000:01:00.0"),
    ]


def test_an_nvidia_smi_that_hangs_is_given_up(
    find: Finder, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    add_nvidia_smi(tmp_path, "exec sleep 600")
    add_nvidia_driver(tmp_path, "0000:3b:00.0", H100)
    begun = time.monotonic()
    with caplog.at_level(logging.WARNING):
        assert find(time_limit_s=0.05) == (Gpu(0, H100, "NVIDIA H100 80GB HBM3", "nvidia", 0),)
    assert time.monotonic() - begun < 60
    program = tmp_path / "bin/nvidia-smi"
    assert [record.getMessage().partition(": ")[0] for record in caplog.records] == [
        f"cannot ask {program} for the GPUs"
    ]


def test_an_nvidia_smi_that_cannot_run_is_passed_over(find: Finder, tmp_path: Path) -> None:
    add_nvidia_smi(tmp_path, "exit 0")
    (tmp_path / "bin/nvidia-smi").write_text("#!/nowhere/sh\n")
    assert find() == ()


def test_amds_are_counted_as_rocm_counts_them(find: Finder, tmp_path: Path) -> None:
    add_kfd_node(tmp_path, 0, "", cpu_cores_count=64, simd_count=0, drm_render_minor=0)
    add_kfd_node(tmp_path, 10, "aqua_vanjaram", simd_count=1216, drm_render_minor=136, unique_id=0xAB)
    add_kfd_node(tmp_path, 2, "ip discovery", simd_count=128, drm_render_minor=128, unique_id=0)
    add_render_node(tmp_path, 136, product_name="AMD Instinct MI300X", mem_info_vram_total=206_141_652_992)
    add_render_node(tmp_path, 128, product_name="", mem_info_vram_total=34_208_743_424)
    assert find() == (
        Gpu(0, "", "ip discovery", "amd", 34_208_743_424),
        Gpu(1, "GPU-00000000000000ab", "AMD Instinct MI300X", "amd", 206_141_652_992),
    )


def test_an_id_that_parts_of_a_gpu_share_names_none_of_them(find: Finder, tmp_path: Path) -> None:
    for node, unique_id in ((1, 0xAB), (2, 0xAB), (3, 0xCD), (4, 0), (5, 0)):
        add_kfd_node(tmp_path, node, "gfx942", simd_count=304, unique_id=unique_id)
    assert [gpu.uuid for gpu in find()] == ["", "", "GPU-00000000000000cd", "", ""]


def test_memory_is_counted_by_banks_where_the_driver_does_not_say(find: Finder, tmp_path: Path) -> None:
    node = add_kfd_node(tmp_path, 1, "gfx90a", simd_count=440, drm_render_minor=128)
    for bank, (heap, size) in enumerate(((1, 1000), (2, 300), (0, 7))):
        folder = node / "mem_banks" / str(bank)
        folder.mkdir(parents=True)
        (folder / "properties").write_text(f"heap_type {heap}\nsize_in_bytes {size}\nflags 0\n")
    assert find() == (Gpu(0, "", "gfx90a", "amd", 1300),)


def test_a_gpu_that_may_not_be_looked_at_is_none(find: Finder, tmp_path: Path) -> None:
    folder = add_kfd_node(tmp_path, 1, "gfx90a", simd_count=440)
    (folder / "properties").unlink()
    (folder / "properties").mkdir()  # reading fails, as where the device controller forbids it
    add_kfd_node(tmp_path, 2, "gfx942", simd_count=1216)
    assert find() == (Gpu(0, "", "gfx942", "amd", 0),)


def test_each_vendor_counts_its_own(find: Finder, tmp_path: Path) -> None:
    add_nvidia_smi(tmp_path, "echo '0, GPU-a, NVIDIA L4, 23034'")
    add_kfd_node(tmp_path, 1, "gfx942", simd_count=1216)
    assert find() == (Gpu(0, "GPU-a", "NVIDIA L4", "nvidia", 23034 * MIB), Gpu(0, "", "gfx942", "amd", 0))
