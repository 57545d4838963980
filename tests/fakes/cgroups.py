"""A cgroup v2 tree made of plain files, and news of its changes, for llmgwd.host.cgroup to read."""

import contextlib
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Self


class Cgroups:
    """`root` takes the place of /sys/fs/cgroup."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._watchers: set[Watcher] = set()

    def put(self, path: str, pids: Iterable[int]) -> None:
        """The group exists and holds these processes."""
        folder = self.root / path.lstrip("/")
        folder.mkdir(parents=True, exist_ok=True)
        numbers = sorted(pids)
        (folder / "cgroup.procs").write_text("".join(f"{pid}\n" for pid in numbers))
        (folder / "cgroup.events").write_text(f"populated {int(bool(numbers))}\nfrozen 0\n")
        self._tell()

    def count_oom_kills(self, path: str, kills: int) -> None:
        """The kernel has killed so many there."""
        events = f"low 0\nhigh 0\nmax {kills}\noom {kills}\noom_kill {kills}\noom_group_kill 0\n"
        (self.root / path.lstrip("/") / "memory.events").write_text(events)

    def remove(self, path: str) -> None:
        shutil.rmtree(self.root / path.lstrip("/"))
        self._tell()

    def watcher(self) -> "Watcher":
        """In place of select.epoll(), which takes no plain files."""
        return Watcher(self._watchers)

    def _tell(self) -> None:
        for watcher in self._watchers:
            watcher.tell()


class Watcher:
    """An epoll that becomes readable when anything in the tree has changed."""

    def __init__(self, watchers: "set[Watcher]") -> None:
        self._watchers = watchers
        self._descriptor = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)

    def __enter__(self) -> Self:
        self._watchers.add(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._watchers.discard(self)
        os.close(self._descriptor)

    def fileno(self) -> int:
        return self._descriptor

    def register(self, descriptor: int, mask: int) -> None:
        """Every change is told, whoever asked."""

    def poll(self, timeout: float) -> None:
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._descriptor)

    def tell(self) -> None:
        os.eventfd_write(self._descriptor, 1)
