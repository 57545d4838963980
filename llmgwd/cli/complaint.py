"""What is said when something could not be done, and the exit status that goes with it."""

import sys
from collections.abc import Iterable
from typing import Final

from llmgwd.cli import exits
from llmgwd.cli.terminal import one_line
from llmgwd.model.errors import NoSuchShard, NotAllowed, Refusal

_HINT: Final = "use sudo"


class Unusable(Exception):  # noqa: N818  (named as the refusals are)
    """Something on this side that a command needs cannot be used: a sentence that names it."""


def problem(what: str, why: str) -> None:
    """One line: `what` follows "cannot"."""
    print(f"llmgwctl: cannot {one_line(what)}: {one_line(why)}", file=sys.stderr)


def gave_up(text: str) -> None:
    """One line for a time limit of the caller's own: nothing went wrong."""
    print(f"llmgwctl: gave up {one_line(text)}", file=sys.stderr)


def quoted(lines: Iterable[str]) -> None:
    """What an engine said, below what we say."""
    sys.stderr.writelines(f"  {one_line(line)}\n" for line in lines)


def refused(what: str, refusal: Refusal, *, user: bool) -> int:
    """Report what the daemon would not do. `user`: it is the user's own daemon."""
    if isinstance(refusal, NotAllowed):
        problem(what, f"AccessDenied: {refusal.text}" + ("" if user else f" ({_HINT})"))
    else:
        problem(what, str(refusal))
    return exits.NO_SUCH_SHARD if isinstance(refusal, NoSuchShard) else exits.FAILED


def warning(text: str) -> None:
    print(f"llmgwctl: warning: {one_line(text)}", file=sys.stderr)
