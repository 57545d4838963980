"""What test_journal.py has done inside the machine: `python3 -m tests.machine.journal_inside STEP ARGUMENT…`.

Each step prints its result as JSON.
"""

import asyncio
import json
import logging
import os
import pwd
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

from llmgwd.host.journal import JournalUnavailable, open_stream, synchronize
from llmgwd.host.journal_reader import EngineLog, Selection
from llmgwd.host.journal_text import Line
from llmgwd.host.logging import setup_logging

NAMESPACE = "llmgw"
RUN_STARTED_US = time.time_ns() // 1000


def unit_of(shard: str, process: str) -> str:
    """A scope that no step before has used: its name is free a moment after its last process has gone."""
    return f"llmgw-shard-{shard}-{process}-{os.getpid()}.scope"


def write(shard: str, program: str, user: str = "llmgw", process: str = "engine") -> None:
    """Run a shell program as a process of a shard, in a scope of its own, to its end."""
    unit = unit_of(shard, process)
    with open_stream(f"{shard}/{process}", unit, namespace=NAMESPACE) as stream:
        subprocess.run(
            [
                "systemd-run", "--quiet", "--scope", "--collect", f"--unit={unit}", "--slice=llmgw.slice",
                f"--uid={user}", "/bin/sh", "-c", program,
            ],
            stdin=subprocess.DEVNULL,
            stdout=stream.fileno(),
            stderr=subprocess.STDOUT,
            check=True,
        )  # fmt: skip


def read(shard: str, processes: Sequence[str], lines: int, since_us: int) -> list[Line]:
    synchronize(NAMESPACE)
    selection = Selection(
        identifiers={f"{shard}/{process}": process for process in processes},
        uids=frozenset({0, pwd.getpwnam("llmgw").pw_uid}),
        since_us=since_us,
        unit=unit_of(shard, "engine"),
    )
    return EngineLog(NAMESPACE).tail(selection, lines)


def tail(shard: str, lines: str = "512", since_us: str = "0") -> list[str]:
    return [line.text for line in read(shard, ["engine"], int(lines), int(since_us))]


def tail_of_many(shard: str, *processes: str) -> list[tuple[str, str]]:
    """The last three lines of processes that printed one each, in this order."""
    for process in processes:
        write(shard, f"echo {process} was here", process=process)
        synchronize(NAMESPACE)
    return [(line.process, line.text) for line in read(shard, sorted(processes), 3, RUN_STARTED_US)]


def write_and_tail(shard: str, program: str, user: str = "llmgw") -> list[str]:
    """Run it, and what its tail is, of this run only."""
    write(shard, program, user)
    return tail(shard, since_us=str(RUN_STARTED_US))


def last_words(shard: str, times: str) -> list[list[str]]:
    """The tails of many engines that printed one line and were gone."""
    return [write_and_tail(f"{shard}-{number}", f"echo {number}") for number in range(int(times))]


def descriptors_that_tails_leave(shard: str, times: str) -> int:
    """How many more descriptors are open after many tails than before the first."""
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(int(times)):
        tail(shard)
    return len(os.listdir("/proc/self/fd")) - before


def refusal() -> str:
    """What opening a stream is refused with."""
    try:
        open_stream("a/engine", "llmgw-shard-a.scope", namespace=NAMESPACE).close()
    except JournalUnavailable as refused:
        return str(refused)
    return ""


def log_past_a_stopped_journald(journald: str, lines: str) -> None:
    """Have an event loop log and turn, line by line, while journald is stopped until the last one."""
    setup_logging()
    fields = {"LLMGW_SHARD": "a", "LLMGW_REPLICA": "r", "LLMGW_STATE": "failed"}
    logging.getLogger("llmgwd").error("shard %s failed:\nlast words", "a", extra=fields)

    async def log() -> None:
        for number in range(int(lines)):
            logging.getLogger("llmgwd").info("line %d %s", number, "x" * 1000)
            await asyncio.sleep(0)

    os.kill(int(journald), signal.SIGSTOP)
    try:
        asyncio.run(log())
    finally:
        os.kill(int(journald), signal.SIGCONT)


STEPS: dict[str, Callable[..., object]] = {
    step.__name__: step
    for step in (
        write,
        tail,
        tail_of_many,
        write_and_tail,
        last_words,
        descriptors_that_tails_leave,
        refusal,
        log_past_a_stopped_journald,
    )
}


def main(arguments: Sequence[str]) -> None:
    print(json.dumps(STEPS[arguments[0]](*arguments[1:])))


if __name__ == "__main__":
    main(sys.argv[1:])
