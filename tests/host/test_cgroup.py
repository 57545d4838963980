"""Control groups, read from trees of files like the kernel's."""

import asyncio
import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from llmgwd.host import cgroup
from llmgwd.host.cgroup import Cgroup
from tests.fakes.cgroups import Cgroups

PATH = "/llmgw.slice/llmgw-shard-a.scope"
MEMORY_EVENTS = "low 0\nhigh 0\nmax 7\noom 2\noom_kill 3\noom_group_kill 0\n"
MEMORY_STAT = "anon 4096\nfile 8192\nkernel 12\nfile_mapped 99\n"
CPU_STAT = "usage_usec 1234567\nuser_usec 1000000\nsystem_usec 234567\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the group, which has nobody in it, and the root's, which has."""
    monkeypatch.setattr(cgroup, "ROOT", tmp_path)
    folder = tmp_path / PATH[1:]
    folder.mkdir(parents=True)
    write(tmp_path, {"cgroup.procs": "1\n2\n", "cpu.stat": CPU_STAT})
    write(folder, {"cgroup.events": "populated 0\nfrozen 0\n", "cgroup.procs": ""})
    return folder


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cgroups:
    """Groups that come and go, and tell it as the kernel's do."""
    groups = Cgroups(tmp_path)
    monkeypatch.setattr(cgroup, "ROOT", tmp_path)
    monkeypatch.setattr(cgroup, "select", SimpleNamespace(epoll=groups.watcher, EPOLLPRI=2))
    return groups


def write(folder: Path, files: dict[str, str]) -> None:
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)


def test_a_host_is_unified_where_the_root_has_controllers(folder: Path, tmp_path: Path) -> None:
    assert not cgroup.is_unified()
    write(tmp_path, {"cgroup.controllers": "cpu memory\n"})
    assert cgroup.is_unified()


@pytest.mark.parametrize(
    ("events", "populated"),
    [
        ("populated 1\nfrozen 0\n", True),
        ("populated 0\nfrozen 1\n", False),
        ("frozen 1\npopulated 1\n", True),
        ("unpopulated 1\npopulated 0\n", False),
    ],
)
def test_the_kernel_says_whether_anybody_is_in_it(folder: Path, events: str, populated: bool) -> None:
    write(folder, {"cgroup.events": events})
    assert Cgroup(PATH).is_populated() is populated


def test_all_processes_in_it_and_below_are_its_own(folder: Path) -> None:
    write(folder, {"cgroup.procs": "30\n4\n"})
    write(folder / "ray", {"cgroup.procs": "5\n"})
    write(folder / "ray/worker", {"cgroup.procs": "6\n700\n"})
    write(folder / "empty", {"cgroup.procs": ""})
    write(folder / "being made", {})
    assert sorted(Cgroup(PATH).pids()) == [4, 5, 6, 30, 700]


def test_a_group_that_has_gone_is_empty(folder: Path) -> None:
    shutil.rmtree(folder)
    gone = Cgroup(PATH)
    assert (gone.is_populated(), gone.pids(), gone.oom_kills(), gone.statistics()) == (False, (), 0, {})


@pytest.mark.parametrize("path", ["", "/"])
def test_no_path_is_no_group_and_never_the_whole_machine(folder: Path, path: str) -> None:
    nobody = Cgroup(path)
    assert (nobody.is_populated(), nobody.pids(), nobody.statistics()) == (False, (), {})


def test_a_group_that_can_not_be_read_is_not_taken_for_empty(folder: Path) -> None:
    for name in ("cgroup.events", "cgroup.procs"):
        (folder / name).unlink()
        (folder / name).mkdir()  # reading fails as it does for want of a descriptor
    assert Cgroup(PATH).is_populated()
    with pytest.raises(IsADirectoryError):
        Cgroup(PATH).pids()


def test_kills_for_want_of_memory_are_counted(folder: Path) -> None:
    assert Cgroup(PATH).oom_kills() == 0
    write(folder, {"memory.events": MEMORY_EVENTS})
    assert Cgroup(PATH).oom_kills() == 3


def test_statistics_are_bytes_and_microseconds(folder: Path) -> None:
    write(
        folder,
        {
            "memory.current": "16384\n",
            "memory.stat": MEMORY_STAT,
            "cpu.stat": CPU_STAT,
            "pids.current": "12\n",
        },
    )
    assert Cgroup(PATH).statistics() == {
        "memory_current": 16384,
        "memory_anon": 4096,
        "memory_file": 8192,
        "cpu_usage_usec": 1234567,
        "tasks": 12,
    }


def test_what_has_no_controller_is_left_out(folder: Path) -> None:
    write(folder, {"cpu.stat": CPU_STAT})
    assert Cgroup(PATH).statistics() == {"cpu_usage_usec": 1234567}
    write(folder, {"memory.current": "max\n", "memory.stat": MEMORY_STAT})
    assert Cgroup(PATH).statistics() == {
        "memory_anon": 4096,
        "memory_file": 8192,
        "cpu_usage_usec": 1234567,
    }


async def test_an_absent_group_is_not_waited_for(folder: Path) -> None:
    shutil.rmtree(folder)
    async with asyncio.timeout(5):
        await Cgroup(PATH).wait_empty()
        await Cgroup("").wait_empty()


async def test_a_group_is_waited_for_until_the_last_one_has_left(groups: Cgroups) -> None:
    groups.put(PATH, {7, 8})
    empty = asyncio.create_task(Cgroup(PATH).wait_empty())
    for left in ({8}, {8, 9}, {9}):
        groups.put(PATH, left)
        done, _ = await asyncio.wait({empty}, timeout=0.01)
        assert not done
    groups.put(PATH, ())
    await empty


async def test_a_group_that_goes_is_empty(groups: Cgroups) -> None:
    groups.put(PATH, {7})
    empty = asyncio.create_task(Cgroup(PATH).wait_empty())
    await asyncio.wait({empty}, timeout=0.01)
    groups.remove(PATH)
    await empty


async def test_whoever_does_not_wait_any_longer_leaves_nothing(groups: Cgroups) -> None:
    groups.put(PATH, {7})
    watched = asyncio.get_running_loop()._selector.get_map()  # type: ignore[attr-defined]
    before = (set(os.listdir("/proc/self/fd")), set(watched))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await Cgroup(PATH).wait_empty()
    assert (set(os.listdir("/proc/self/fd")), set(watched)) == before


async def test_a_group_that_can_not_be_looked_at_is_waited_for(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cgroup, "_AGAIN_S", 0.001)
    looks = 0

    def refuse(path: Path) -> None:
        nonlocal looks
        looks += 1
        if looks == 3:
            raise FileNotFoundError(2, "No such file or directory")
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(cgroup, "FileIO", refuse)
    async with asyncio.timeout(5):
        await Cgroup(PATH).wait_empty()
    assert looks == 3
