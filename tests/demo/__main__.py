"""`make demo`: tells the story where it can happen. Exit status 1, and why, where it cannot or is not so."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import FrameType
from typing import Final

from tests.demo import of_user
from tests.demo.in_machine import in_machine
from tests.demo.node import NotSo
from tests.demo.place import Place
from tests.demo.story import ID, UNIT, start_command, tell
from tests.demo.teller import Teller
from tests.machine.host import MachineError, what_is_missing
from tests.machine.machine import CommandError
from tests.real.llama import NoLlamaServer

FAILURES: Final = (NotSo, CommandError, MachineError, NoLlamaServer, OSError, subprocess.TimeoutExpired)
INTERRUPTED: Final = 130


class CannotHappen(Exception):  # noqa: N818
    """One sentence: what is not here that the story needs."""


def main() -> int:
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, leave)
    teller = Teller()
    teller.remark(
        "llmgwd, and an engine that outlives it. The engine is a real llama-server; the model's weights are "
        "random, so what it writes means nothing."
    )
    try:
        with a_place(teller.remark) as place:
            return happens(place, teller)
    except (CannotHappen, *FAILURES) as error:
        complain(error)
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED


def a_place(say: Callable[[str], None]) -> AbstractContextManager[Place]:
    """A machine for root, else the user's own systemd. Raises CannotHappen."""
    if not (no_machine := what_is_missing()):
        return in_machine(say)
    if not (no_user := of_user.what_is_missing()):
        return of_user.of_user(say)
    raise CannotHappen(
        f"no machine can be booted here ({no_machine}), and no user's systemd can be used ({no_user})"
    )


def happens(place: Place, teller: Teller) -> int:
    began = time.monotonic()
    failed = False
    try:
        tell(place, teller)
    except FAILURES as error:
        failed = True
        complain(error)
        sys.stderr.write(f"\nThe journal:\n{place.journal()}\n")
    else:
        teller.remark(f"\nAll of this was so, in {time.monotonic() - began:.0f} s.")
    if os.environ.get("KEEP", "0") != "0":
        hints(place, teller)
        place.shell()
    return int(failed)


def hints(place: Place, teller: Teller) -> None:
    teller.remark("\nIt all stays until you leave this shell. To go on:")
    flags = place.user_flag
    of_unit = "--user-unit" if flags else "--unit"
    for command in (
        start_command(place),
        ["llmgwctl", *flags, "status", ID],
        ["llmgwctl", *flags, "logs", ID, "-f"],
        ["systemctl", *flags, "status", UNIT],
        ["systemd-cgls", of_unit, "llmgw.slice"],
        ["journalctl", place.engines_journal, f"--unit={UNIT}"],
        ["journalctl", *flags, f"--unit={place.daemon_unit}"],
        ["busctl", *flags, "introspect", "org.llmgw.Node1", "/org/llmgw/Node1"],
        ["exit"],
    ):
        teller.command(command)


def complain(error: BaseException) -> None:
    sys.stdout.flush()
    sys.stderr.write(f"\ndemo: {error}\n")


def leave(number: int, _: FrameType | None) -> None:
    """As after Ctrl-C: what was started is ended."""
    sys.exit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
