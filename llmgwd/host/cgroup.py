"""One control group: is anybody in it, who, and what the kernel's out-of-memory killer did there."""

import asyncio
import errno
import os
import select
from io import FileIO
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
_NOWHERE = Path("/proc/none")

_GONE = frozenset({errno.ENOENT, errno.ENODEV})
# When this daemon itself is short of something (EMFILE) there is nothing to wait for.
_AGAIN_S = 0.1


def is_unified() -> bool:
    """Whether this host has cgroup v2 alone, which the promises rest on."""
    return (ROOT / "cgroup.controllers").exists()


class Cgroup:
    """`path` is the one that /proc/PID/cgroup shows, `/llmgw.slice/llmgw-shard-a.scope`.

    A group that has gone is empty: PID 1 removes it right after its last process. One that cannot be read,
    for want of a file descriptor say, is not.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        # Without a path there is no group; the folder would be that of the whole machine.
        self._folder = ROOT / path.lstrip("/") if path.strip("/") else _NOWHERE

    def is_populated(self) -> bool:
        """Zombies do not count (cgroup-v2.rst, `cgroup.events`)."""
        try:
            return self._look()
        except OSError as error:
            return error.errno not in _GONE

    def pids(self) -> tuple[int, ...]:
        """All processes in it and below it. Raises OSError where that cannot be told."""
        found: list[int] = []
        for folder, _, _ in os.walk(self._folder, onerror=_raise_unless_gone):
            try:
                found += map(int, (Path(folder) / "cgroup.procs").read_text().split())
            except OSError as error:
                if error.errno != errno.EOPNOTSUPP:  # a threaded group: the one above it lists its processes
                    _raise_unless_gone(error)
        return tuple(found)

    def oom_kills(self) -> int:
        """Processes of this group that the kernel has killed for want of memory; 0 without the controller."""
        return _value(self._read("memory.events"), "oom_kill")

    def statistics(self) -> dict[str, int]:
        """Bytes and microseconds as the kernel counts them; what has no controller here is left out."""
        memory, cpu = self._read("memory.stat"), self._read("cpu.stat")
        found = {
            "memory_current": self._number("memory.current"),
            "memory_anon": _value(memory, "anon") if memory else None,
            "memory_file": _value(memory, "file") if memory else None,
            "cpu_usage_usec": _value(cpu, "usage_usec") if cpu else None,
            "tasks": self._number("pids.current"),
        }
        return {key: value for key, value in found.items() if value is not None}

    async def wait_empty(self) -> None:
        """Returns as soon as nobody is left; costs nothing meanwhile."""
        while True:
            try:
                await self._wait_empty()
                return
            except OSError as error:
                if error.errno in _GONE:
                    return
            await asyncio.sleep(_AGAIN_S)

    async def _wait_empty(self) -> None:
        loop = asyncio.get_running_loop()
        changed = asyncio.Event()
        # kernfs files are always readable and tell news by POLLPRI alone, which asyncio cannot ask for:
        # an epoll of our own stands between.
        with FileIO(self._folder / "cgroup.events") as events, select.epoll() as epoll:
            epoll.register(events.fileno(), select.EPOLLPRI)
            loop.add_reader(epoll.fileno(), changed.set)
            try:
                while self._look():
                    await changed.wait()
                    changed.clear()
                    epoll.poll(0)
                    # Reading from the start is what makes the next change show.
                    events.seek(0)
                    events.readall()
            finally:
                loop.remove_reader(epoll.fileno())

    def _look(self) -> bool:
        return _value((self._folder / "cgroup.events").read_text(), "populated") == 1

    def _read(self, name: str) -> str:
        try:
            return (self._folder / name).read_text()
        except OSError:
            return ""

    def _number(self, name: str) -> int | None:
        text = self._read(name).strip()
        return int(text) if text.isdigit() else None


def _raise_unless_gone(error: OSError) -> None:
    if error.errno not in _GONE:
        raise error


def _value(text: str, key: str) -> int:
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        if name == key and value.strip().isdigit():
            return int(value)
    return 0
