"""Commands as processes, made by the zygote."""

import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).parents[2]
LONGEST_S = 30


@dataclass
class Outcome:
    """What a command printed, and its exit status (negative: the signal that ended it)."""

    status: int
    out: str
    err: str = ""

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Zygote:
    """Starts with the first command."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._control, self._other_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    def run(self, words: Sequence[str], environment: Mapping[str, str], files: Sequence[int]) -> int:
        """The pid of a new process."""
        if self._process is None:
            program = [sys.executable, "-W", "error", "-m", "tests.fakes.zygote"]
            self._process = subprocess.Popen(program, stdin=self._other_end.fileno(), cwd=PROJECT)
        return self._ask({"words": list(words), "environment": dict(environment)}, files)

    def wait(self, pid: int) -> int:
        return self._ask({"wait": pid})

    def close(self) -> None:
        self._other_end.close()
        self._control.close()
        if self._process is not None:
            self._process.wait()

    def _ask(self, order: Mapping[str, object], files: Sequence[int] = ()) -> int:
        socket.send_fds(self._control, [json.dumps(order).encode()], files)
        answer: int = json.loads(self._control.recv(64))
        return answer


class Command:
    """A command that runs. Given `out` or `err` are where it writes, the others can be read here."""

    def __init__(
        self, zygote: Zygote, words: Sequence[str | bytes], environment: Mapping[str, str], **given: int
    ) -> None:
        self._zygote = zygote
        reading: dict[str, int] = {}
        writing = dict(given)
        for name in ("out", "err"):
            if name not in given:
                reading[name], writing[name] = os.pipe()
        nothing = os.open(os.devnull, os.O_RDONLY)
        self.pid = zygote.run(
            list(map(os.fsdecode, words)), environment, (nothing, writing["out"], writing["err"])
        )
        for descriptor in (nothing, *(writing[name] for name in reading)):
            os.close(descriptor)
        self._files = {name: os.fdopen(descriptor, encoding="utf-8") for name, descriptor in reading.items()}
        self._pidfd = os.pidfd_open(self.pid)

    def line(self) -> str:
        """The next line of its output."""
        return self._files["out"].readline()

    def error_line(self) -> str:
        return self._files["err"].readline()

    def stop_reading(self) -> None:
        self._files.pop("out").close()

    def signal(self, number: signal.Signals) -> None:
        signal.pidfd_send_signal(self._pidfd, number)

    def finish(self) -> Outcome:
        """Wait for its end; one that hangs is killed and fails the test. What it wrote fits into a pipe."""
        ended, _, _ = select.select([self._pidfd], [], [], LONGEST_S)
        if not ended:
            self.signal(signal.SIGKILL)
        status = self._zygote.wait(self.pid)
        os.close(self._pidfd)
        printed = {}
        for name, file in self._files.items():
            with file:
                printed[name] = file.read()
        assert ended, f"it did not end: {printed}"
        return Outcome(status, printed.get("out", ""), printed.get("err", ""))
