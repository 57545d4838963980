"""Real programs that a test holds by strings: they say that they run, and end as they are told."""

import os
from pathlib import Path

from llmgwd.host import process

# What a program does first.
IGNORES_TERM = "trap '' TERM"
COUNTS_TERM = """trap 'echo >>"$1.terms"' TERM"""
LEAVES_A_CHILD = "sleep 1000 &"


class FakeProgram:
    """A program of a shard: it says that it runs, and ends as it is told."""

    def __init__(self, folder: Path, name: str, before: str = "") -> None:
        orders = folder / f"{name}.orders"
        self._ran = folder / f"{name}.ran"
        os.mkfifo(orders)
        self._orders = os.open(orders, os.O_RDWR | os.O_CLOEXEC)
        script = f'{before}\necho >>"$1"; until read -r code <"$0"; do :; done; exit "$code"'
        self.argv = ("/bin/sh", "-c", script, str(orders), str(self._ran))

    @property
    def runs(self) -> int:
        """How often it was started."""
        return _lines(self._ran)

    @property
    def terms(self) -> int:
        """How many SIGTERM it got, if it counts them."""
        return _lines(Path(f"{self._ran}.terms"))

    def exit(self, code: int) -> None:
        os.write(self._orders, b"%d\n" % code)

    def close(self) -> None:
        os.close(self._orders)


def stranger() -> int:
    """A process that is nobody's."""
    return os.posix_spawn("/bin/sleep", ["sleep", "1000"], {})


def is_alive(pid: int) -> bool:
    return process.state(pid) not in {"Z", "X"}


def _lines(path: Path) -> int:
    return path.read_text().count("\n") if path.exists() else 0
