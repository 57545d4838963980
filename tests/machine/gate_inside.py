"""What test_gate.py has done inside the machine, as root: `python3 -m tests.machine.gate_inside STEP`.

Each step prints its result as JSON.
"""

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from llmgwd.host import executables, gate
from llmgwd.host.cgroup import Cgroup
from llmgwd.host.gate import Gate, Program, read_status
from llmgwd.host.identity import Users
from llmgwd.host.process import control_group
from llmgwd.host.records import RecordStore
from llmgwd.model.errors import EngineUnavailable, StateNotSaved


@contextmanager
def disk(options: str) -> Iterator[Path]:
    """A small file system of its own."""
    folder = Path("/run/small-disk")
    folder.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"mode=0755,{options}", "tmpfs", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def fill(folder: Path) -> None:
    with (folder / "filler").open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError:
            return


def spawn(status: Path, *argv: str, user: str = "") -> Gate:
    program = Program(
        argv=argv,
        environment={},
        working_directory="/",
        identity=Users().find(user, "") if user else None,
        nofile=1024,
        memlock=0,
    )
    ours, theirs = socket.socketpair()
    with ours, theirs:
        return gate.spawn(program, output=theirs, status=status)


async def ended(made: Gate) -> None:
    await made.process.ended
    made.release()


def full_disk() -> list[str]:
    """Statuses that are kept after the disk has become full, and what is said of one gate more."""

    async def run(folder: Path) -> list[str]:
        paths = [folder / "a.exits" / name for name in ("opened", "shut", "killed")]
        gates = [spawn(path, "/bin/sh", "-c", "kill -SEGV $$") for path in paths]
        fill(folder)
        gates[0].open()
        gates[1].shut()
        gates[2].process.send(signal.SIGKILL)
        for made in gates:
            await ended(made)
        try:
            spawn(folder / "b.exits/engine", "/bin/true")
        except StateNotSaved as error:
            return [*map(read_status, paths), error.text]
        return []

    with disk("size=64k") as folder:
        return asyncio.run(run(folder))


def full_disk_of_records() -> list[object]:
    """The record that is kept when its successor finds no room."""
    with disk("size=64k") as folder:
        store = RecordStore(folder)
        store.open()
        store.write("a", {"state": "ready"})
        fill(folder)
        try:
            store.write("a", {"state": "x" * 100_000})
        except OSError as error:
            why = error.strerror
        left = sorted(path.name for path in folder.iterdir())
        os.close(store._lock)
        return [why, dict(store.read_all()), left]


def noexec() -> list[str]:
    """What is said of programs on a disk where nothing may be run."""
    said = []
    with disk("noexec") as folder:
        shutil.copy("/bin/true", folder / "program")
        (folder / "script").write_text("#!/bin/sh\n")
        (folder / "script").chmod(0o755)
        for name in ("program", "script"):
            for identity in (None, Users().find("llmgw", "")):
                try:
                    executables.resolve(str(folder / name), path=executables.PATH, identity=identity)
                except EngineUnavailable as error:
                    said.append(error.text)
    return said


def attack() -> str:
    """What is kept of the end of a program of the engines' user that is after its gate."""

    async def run() -> str:
        path = Path("/run/attack/engine")
        program = f"kill -KILL $PPID; echo 0 1<>{path}; exit 9"
        made = spawn(path, "/bin/sh", "-c", f"({program}); exit 9", user="llmgw")
        made.open()
        await ended(made)
        return read_status(path)

    return asyncio.run(run())


def group() -> dict[str, bool]:
    """What is told of a group of two processes, one below, that end one after the other."""
    path = control_group(os.getpid()).rstrip("/") + "/below"
    folders = [Path(f"/sys/fs/cgroup{path}"), Path(f"/sys/fs/cgroup{path}/inner")]
    sleepers = []
    for folder in folders:
        folder.mkdir()
        sleepers.append(subprocess.Popen(["sleep", "1000"]))
        (folder / "cgroup.procs").write_text(str(sleepers[-1].pid))
    found = asyncio.run(watch(Cgroup(path), sleepers))
    for folder in reversed(folders):
        folder.rmdir()
    return found


async def watch(tested: Cgroup, sleepers: Sequence[subprocess.Popen[bytes]]) -> dict[str, bool]:
    found = {
        "populated": tested.is_populated(),
        "complete": set(tested.pids()) == {sleeper.pid for sleeper in sleepers},
    }
    empty = asyncio.create_task(tested.wait_empty())
    for at, sleeper in enumerate(sleepers):
        found[f"empty before {at}"] = bool((await asyncio.wait({empty}, timeout=0.1))[0])
        sleeper.kill()
        await asyncio.to_thread(sleeper.wait)
    async with asyncio.timeout(10):
        await empty
    return found | {"populated at last": tested.is_populated()}


STEPS: dict[str, Callable[[], object]] = {
    step.__name__: step for step in (full_disk, full_disk_of_records, noexec, attack, group)
}


def main(arguments: Sequence[str]) -> None:
    print(json.dumps(STEPS[arguments[0]]()))


if __name__ == "__main__":
    main(sys.argv[1:])
