"""The fixture `world`: everything that a test has left behind is ended, and a leak in ours fails it."""

import asyncio
import contextlib
import ctypes
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from llmgwd.host import cgroup, process
from llmgwd.supervisor import keeper, serving, starting, stopping
from tests.fakes.world import FakeWorld

_PR_SET_CHILD_SUBREAPER = 36
_STEP_S = 0.001


@pytest.fixture
async def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FakeWorld]:
    """A machine with nothing on it, and a node. Nothing waits longer than it must."""
    descriptors, children = _descriptors(), _children()
    fake = FakeWorld(tmp_path)
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    monkeypatch.setattr(cgroup, "ROOT", fake.cgroups.root)
    monkeypatch.setattr(cgroup, "select", SimpleNamespace(epoll=fake.cgroups.watcher, EPOLLPRI=2))
    monkeypatch.setattr(process, "control_group", fake.scopes.control_group)
    monkeypatch.setattr(starting, "control_group", fake.scopes.control_group)
    for module, name in (
        (keeper, "_AGAIN_S"),
        (serving, "_QUICK_S"),
        (serving, "_EAGER_S"),
        (serving, "_REQUEST_STEP_S"),
        (starting, "_STEP_S"),
        (starting, "_RENDEZVOUS_STEP_S"),
        (stopping, "_STEP_S"),
    ):
        monkeypatch.setattr(module, name, _STEP_S)
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)  # what loses its parent comes to us
    try:
        yield fake
    finally:
        await fake.close()
        await asyncio.get_running_loop().shutdown_default_executor()
        _end(children)
        libc.prctl(_PR_SET_CHILD_SUBREAPER, 0)
    for _ in range(3):  # a task that was cancelled last needs its turn
        await asyncio.sleep(0)
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    assert not tasks, f"left behind: {tasks}"
    assert _descriptors() == descriptors, f"left open: {_descriptors() - descriptors}"


def _end(but: set[int]) -> None:
    """Kills and reaps every descendant that came since."""
    while left := _children() - but:
        for pid in left:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _children() -> set[int]:
    found: set[int] = set()
    for task in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(FileNotFoundError):  # a thread that has just ended
            found |= {int(pid) for pid in task.read_text().split()}
    return found


def _descriptors() -> set[str]:
    return {entry for entry in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{entry}")}
