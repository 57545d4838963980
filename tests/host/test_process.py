"""Processes, our children or not, and what /proc says of them."""

import asyncio
import errno
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from llmgwd.host import process
from llmgwd.host.process import (
    Held,
    NoSuchProcess,
    boot_id,
    control_group,
    first_child,
    leads_session,
    start_time,
    state,
)

NAMES = ["sleep", "a b", "(a)", "a) Z 1 (b", ")", "((", "\\", "tab\there", "é€", "é€€€€€"]


def is_zombie(pid: int) -> bool:
    return state(pid) in {"Z", "X"}


@contextmanager
def running(*argv: str, **options: object) -> Iterator[subprocess.Popen[str]]:
    """A child with two pipes, gone after the block."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(argv, **pipes, **options) as child:  # type: ignore[call-overload]
        try:
            yield child
        finally:
            child.kill()


def said(child: subprocess.Popen[str]) -> str:
    assert child.stdout is not None
    return child.stdout.readline().strip()


@pytest.fixture
def zombie() -> Iterator[int]:
    """A child that has ended and was not waited for."""
    child = subprocess.Popen(["/bin/true"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    yield child.pid
    child.wait()


@pytest.fixture
def gone() -> int:
    """The number of a process that was."""
    child = subprocess.Popen(["/bin/true"])
    child.wait()
    return child.pid


def write_stat(root: Path, pid: int, stat: bytes) -> None:
    (root / str(pid)).mkdir()
    (root / str(pid) / "stat").write_bytes(stat)


# What /proc says


def test_the_start_is_in_clock_ticks_since_boot() -> None:
    started = start_time(os.getpid()) / os.sysconf("SC_CLK_TCK") + psutil.boot_time()
    assert started == pytest.approx(psutil.Process().create_time(), abs=1)


def test_the_boot_has_an_id_that_stays() -> None:
    assert (len(boot_id()), boot_id()) == (36, boot_id())


@pytest.mark.parametrize("name", NAMES)
def test_a_name_with_blanks_and_brackets_moves_no_field(name: str) -> None:
    with running("/bin/sh", "-c", 'printf %s "$1" >/proc/$$/comm; echo; read -r _', "sh", name) as child:
        said(child)
        assert Path(f"/proc/{child.pid}/comm").read_text(errors="replace").startswith(name[:3])
        read = (start_time(child.pid), state(child.pid) in {"R", "S"}, is_zombie(child.pid))
        assert read == (round_ticks(child.pid), True, False)


def round_ticks(pid: int) -> int:
    """The start of `pid`, from another reader of the same file."""
    return int(Path(f"/proc/{pid}/stat").read_bytes().rsplit(b") ", 1)[1].split()[19])


def test_a_name_that_is_no_text_moves_no_field(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "PROC", tmp_path)
    fields = b" ".join(str(number).encode() for number in range(7, 53))
    write_stat(tmp_path, 7, b"7 (\xff) S (\n) D 1 4 4 " + fields)
    assert (start_time(7), state(7), leads_session(7)) == (22, "D", False)


@pytest.mark.parametrize(
    ("letter", "ended"), [("R", False), ("D", False), ("T", False), ("Z", True), ("X", True)]
)
def test_zombies_have_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, letter: str, ended: bool
) -> None:
    monkeypatch.setattr(process, "PROC", tmp_path)
    write_stat(tmp_path, 7, f"7 (a) {letter} 1 7 7 0".encode())
    assert (state(7), is_zombie(7)) == (letter, letter in {"Z", "X"})


def test_of_one_that_has_gone_there_is_nothing_to_tell(gone: int) -> None:
    for ask in (start_time, control_group):
        with pytest.raises(NoSuchProcess, match=f"^pid {gone}$"):
            ask(gone)
    told = (is_zombie(gone), state(gone), first_child(gone), leads_session(gone))
    assert told == (True, "X", 0, False)


def test_a_proc_that_can_not_be_read_is_no_end_of_a_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "PROC", tmp_path)
    for name in ("stat", "cgroup"):
        (tmp_path / "7" / name).mkdir(parents=True)  # reading fails as it does for want of a descriptor
    for ask in (start_time, is_zombie, state, leads_session, control_group):
        with pytest.raises(IsADirectoryError):
            ask(7)


@pytest.mark.parametrize(
    ("text", "group"),
    [
        ("0::/llmgw.slice/llmgw-shard-a.scope\n", "/llmgw.slice/llmgw-shard-a.scope"),
        ("12:pids:/x\n1:name=systemd:/user\n0::/a b:c\n", "/a b:c"),
        ("0::/\n", "/"),
        ("12:pids:/0::/x\n", ""),
        ("", ""),
    ],
)
def test_the_control_group_is_that_of_the_second_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, group: str
) -> None:
    monkeypatch.setattr(process, "PROC", tmp_path)
    (tmp_path / "7").mkdir()
    (tmp_path / "7/cgroup").write_text(text)
    assert control_group(7) == group


def test_the_first_child_is_the_oldest() -> None:
    with running("/bin/sh", "-c", "sleep 1000 & echo $!; sleep 1000 & echo $!; read -r _") as parent:
        older, younger = int(said(parent)), int(said(parent))
        assert first_child(parent.pid) == older
        assert first_child(older) == 0
        for child in (older, younger):
            os.kill(child, signal.SIGKILL)


def test_the_leader_of_a_session_is_told_from_its_members() -> None:
    with (
        running("/bin/cat") as member,
        running("/bin/cat", start_new_session=True) as leader,
    ):
        assert (leads_session(member.pid), leads_session(leader.pid)) == (False, True)


# Held


async def test_the_end_of_a_child_is_told() -> None:
    with running("/bin/cat") as child:
        held = Held.open(child.pid)
        assert (held.pid, held.start_time, held.ended.done()) == (child.pid, start_time(child.pid), False)
        child.kill()
        await held.ended
        assert is_zombie(child.pid)
        held.release()


async def test_the_end_of_somebody_elses_child_is_told() -> None:
    with running("/bin/sh", "-c", "sleep 1000 & echo $!") as parent:
        pid = int(said(parent))
        parent.wait()
        held = Held.open(pid)
        os.kill(pid, signal.SIGKILL)
        await held.ended
        held.release()


async def test_a_zombie_has_ended(zombie: int) -> None:
    held = Held.open(zombie)
    await held.ended
    assert is_zombie(zombie)
    held.release()


async def test_the_right_start_is_the_right_process() -> None:
    with running("/bin/cat") as child:
        held = Held.open(child.pid, started=start_time(child.pid))
        held.release()


async def test_a_process_that_has_the_number_of_another_is_refused_and_let_go() -> None:
    before = set(os.listdir("/proc/self/fd"))
    with running("/bin/cat") as child:
        with pytest.raises(NoSuchProcess, match=f"^pid {child.pid} is another process now$"):
            Held.open(child.pid, started=start_time(child.pid) - 1)
        assert child.poll() is None
    assert set(os.listdir("/proc/self/fd")) == before


async def test_one_that_has_gone_can_not_be_held(gone: int) -> None:
    with pytest.raises(NoSuchProcess, match=f"^pid {gone}$"):
        Held.open(gone)


@pytest.mark.parametrize("number", [0, -1])
async def test_what_is_no_number_of_a_process_can_not_be_held(number: int) -> None:
    with pytest.raises(NoSuchProcess, match=f"^pid {number}$"):
        Held.open(number)


async def test_a_thread_is_no_process() -> None:
    seen = asyncio.Event()
    loop = asyncio.get_running_loop()

    def wait_in_thread() -> None:
        loop.call_soon_threadsafe(threads.append, int(Path("/proc/thread-self").readlink().name))
        loop.call_soon_threadsafe(seen.set)
        assert asyncio.run_coroutine_threadsafe(finish.wait(), loop).result(10)

    threads: list[int] = []
    finish = asyncio.Event()
    thread = asyncio.create_task(asyncio.to_thread(wait_in_thread))
    await seen.wait()
    with pytest.raises(NoSuchProcess):
        Held.open(threads[0])
    finish.set()
    await thread


async def test_one_that_ends_while_it_is_looked_at_can_not_be_held(
    zombie: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = set(os.listdir("/proc/self/fd"))

    def vanished(pid: int) -> int:
        raise NoSuchProcess(f"pid {pid}")

    monkeypatch.setattr(process, "start_time", vanished)
    with pytest.raises(NoSuchProcess):
        Held.open(zombie)
    assert set(os.listdir("/proc/self/fd")) == before


async def test_no_room_for_it_says_nothing_about_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(pid: int) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(os, "pidfd_open", refuse)
    with pytest.raises(OSError, match="Too many open files"):
        Held.open(os.getpid())


async def test_a_signal_reaches_the_process_and_nobody_after_it() -> None:
    with running("/bin/cat") as child:
        held = Held.open(child.pid)
        held.send(signal.SIGTERM)
        await held.ended
        assert child.wait() == -signal.SIGTERM
        held.send(signal.SIGTERM)  # in peace: the number may be another's by now
        held.release()
        held.send(signal.SIGTERM)


async def test_what_is_released_is_watched_no_longer() -> None:
    before = set(os.listdir("/proc/self/fd"))
    with running("/bin/cat") as child:
        held = Held.open(child.pid)
        held.release()
        held.release()
        child.kill()
    assert (held.ended.cancelled(), set(os.listdir("/proc/self/fd"))) == (True, before)
