"""One control group: is anybody in it, who, and what the kernel's out-of-memory killer did there."""

import asyncio
import select
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")


def is_unified() -> bool:
    """Whether this host has cgroup v2 alone, which the promises rest on."""
    return (ROOT / "cgroup.controllers").exists()


class Cgroup:
    """`path` is the one that /proc/PID/cgroup shows, `/llmgw.slice/llmgw-shard-a.scope`.

    A group that has gone is empty: PID 1 removes it right after its last process.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._folder = ROOT / path.lstrip("/")

    def is_populated(self) -> bool:
        """Zombies do not count (cgroup-v2.rst, `cgroup.events`)."""
        return _value(self._read("cgroup.events"), "populated") == 1

    def pids(self) -> tuple[int, ...]:
        """All processes in it and below it."""
        found = [int(pid) for pid in self._read("cgroup.procs").split()]
        try:
            below = [folder for folder in self._folder.rglob("*") if folder.is_dir()]
        except OSError:
            below = []
        for folder in below:
            try:
                found += [int(pid) for pid in (folder / "cgroup.procs").read_text().split()]
            except OSError:
                continue
        return tuple(found)

    def oom_kills(self) -> int:
        """Processes of this group that the kernel has killed for want of memory; 0 without the controller."""
        return _value(self._read("memory.events"), "oom_kill")

    def statistics(self) -> dict[str, int]:
        """Bytes and microseconds as the kernel counts them; what has no controller here is left out."""
        memory = self._read("memory.stat")
        found = {
            "memory_current": self._number("memory.current"),
            "memory_anon": _value(memory, "anon") if memory else None,
            "memory_file": _value(memory, "file") if memory else None,
            "cpu_usage_usec": _value(self._read("cpu.stat"), "usage_usec"),
            "tasks": self._number("pids.current"),
        }
        return {key: value for key, value in found.items() if value is not None}

    async def wait_empty(self) -> None:
        """Returns as soon as nobody is left; costs nothing meanwhile."""
        try:
            events = (self._folder / "cgroup.events").open("rb", buffering=0)
        except OSError:
            return
        loop = asyncio.get_running_loop()
        changed = asyncio.Event()
        # kernfs files are always readable and tell news by POLLPRI alone, which asyncio cannot ask for:
        # an epoll of our own stands between.
        with events, select.epoll() as epoll:
            epoll.register(events.fileno(), select.EPOLLPRI)
            loop.add_reader(epoll.fileno(), changed.set)
            try:
                while self.is_populated():
                    await changed.wait()
                    changed.clear()
                    epoll.poll(0)
                    _drain(events)
            finally:
                loop.remove_reader(epoll.fileno())

    def _read(self, name: str) -> str:
        try:
            return (self._folder / name).read_text()
        except OSError:
            return ""

    def _number(self, name: str) -> int | None:
        text = self._read(name).strip()
        return int(text) if text.isdigit() else None


def _drain(events: object) -> None:
    # Reading from the start is what makes the next change show; a group that has gone answers ENODEV.
    try:
        events.seek(0)  # type: ignore[attr-defined]
        events.read()  # type: ignore[attr-defined]
    except OSError:
        pass


def _value(text: str, key: str) -> int:
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        if name == key and value.strip().isdigit():
            return int(value)
    return 0
