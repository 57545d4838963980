"""A shard's output as it is written: `journalctl --follow`, which needs no daemon, and what it prints."""

import glob
import os
import pwd
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Self

from llmgwd.host.journal_text import LONGEST_LINE_BYTES, shown
from llmgwd.model.identifiers import ENGINE, journal_identifier

_ADDED_BY_ENGINES: Final = ("ray-head",)
_FIELDS: Final = "MESSAGE,SYSLOG_IDENTIFIER,_LINE_BREAK,_SYSTEMD_INVOCATION_ID"
_UNIT_FIELDS: Final = {True: "_SYSTEMD_USER_UNIT", False: "_SYSTEMD_UNIT"}
_KEPT: Final = "/var/log/journal"
_FILES: Final = (_KEPT + "/*/system.journal", "/run/log/journal/*/system.journal")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where a shard's lines are, and which of those that were there before are of its present run.

    `several`: more than one process is known to write; others may show up (what an engine adds by itself).
    The scope and the user are what journald vouches for; an identifier alone is anybody's claim.
    """

    id: str
    processes: tuple[str, ...]
    several: bool
    unit: str
    uids: tuple[int, ...]
    invocation_id: str
    since_us: int
    user: bool

    @classmethod
    def of(cls, shard: Mapping[str, Any], *, user: bool) -> Self:
        """`shard`: its properties; `user`: it is one of `llmgwd --user`."""
        sidecars = tuple(sidecar["name"] for sidecar in shard["Spec"].get("sidecars", ()))
        return cls(
            id=shard["Id"],
            processes=(*(sidecars or _ADDED_BY_ENGINES), ENGINE),
            several=bool(sidecars) or shard["Spec"].get("executor") == "ray",
            unit=shard["Unit"],
            uids=(os.getuid(),) if user else _uids(shard["Spec"].get("user", "")),
            invocation_id=shard["InvocationId"],
            since_us=shard["Started"] or time.time_ns() // 1000,
            user=user,
        )

    def command(self, lines: int) -> list[str]:
        """Prints the last lines and goes on: one reading of the journal, so none is left out or repeated."""
        names = [journal_identifier(self.id, process) for process in self.processes]
        ours = ["_TRANSPORT=stdout", *(f"SYSLOG_IDENTIFIER={name}" for name in names)]
        unit = _UNIT_FIELDS[self.user]
        # The scope has what runs under another uid (containers), the uid what was moved out of the scope.
        either = [*ours, f"{unit}={self.unit}", "+", *ours, *(f"_UID={uid}" for uid in self.uids)]
        return [
            "journalctl", "--quiet", "--follow", f"--lines={lines}", "--all",
            # which namespace engines write to is in the daemon's configuration; no other has such lines
            *([] if self.user else ["--namespace=*"]),
            "--output=json", f"--output-fields={_FIELDS},{unit}", *either,
        ]  # fmt: skip

    def run_of(self, record: Mapping[str, Any]) -> str:
        """The invocation of the shard's scope that it is of; empty where it did not come from the scope."""
        ours = record.get(_UNIT_FIELDS[self.user]) == self.unit
        return str(record.get("_SYSTEMD_INVOCATION_ID", "")) if ours else ""

    def has(self, record: Mapping[str, Any]) -> bool:
        """Whether it is of this run, or of a later one; lines of earlier ones may be in the journal, too."""
        if self.invocation_id and record.get("_SYSTEMD_INVOCATION_ID") == self.invocation_id:
            return True
        return int(record["__REALTIME_TIMESTAMP"]) >= self.since_us


@dataclass(slots=True)
class Lines:
    """Turns the records that journalctl prints into lines for people, as TailShard writes them."""

    source: Source
    _names_shown: bool = False
    _beginnings: dict[str, bytes] = field(default_factory=dict)
    _runs: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._runs |= {self.source.invocation_id} - {""}

    def begins_run(self, record: Mapping[str, Any]) -> bool:
        """Whether it is the first of a run that comes after one that is known."""
        run = self.source.run_of(record)
        if not run or run in self._runs or not self.source.has(record):
            return False
        self._runs.add(run)
        return len(self._runs) > 1

    def read(self, record: Mapping[str, Any]) -> str | None:
        """The line that a record ends; None for one that ends none, or is not of this run."""
        if not self.source.has(record):
            return None
        process = record["SYSLOG_IDENTIFIER"].removeprefix(f"{self.source.id}/")
        message = self._beginnings.pop(process, b"") + _bytes(record["MESSAGE"])
        if record.get("_LINE_BREAK") == "line-max" and len(message) < LONGEST_LINE_BYTES:
            self._beginnings[process] = message
            return None
        self._names_shown |= self.source.several or process != ENGINE
        return f"[{process}] {shown(message)}" if self._names_shown else shown(message)


def readable(*, user: bool) -> bool:
    """Whether this user may read what engines print: journalctl itself is silent about what it leaves out.

    `user`: engines of `llmgwd --user`, whose lines are in the user's own file where journald keeps files.
    """
    files = (path for pattern in _FILES for path in glob.glob(pattern))
    return (
        os.geteuid() == 0
        or any(os.access(path, os.R_OK) for path in files)
        or (user and os.path.isdir(_KEPT))
    )


def _uids(user: str) -> tuple[int, ...]:
    """Root's, which has something to say when an engine cannot be run, and the engine's."""
    try:
        return (0, pwd.getpwnam(user).pw_uid)
    except KeyError:
        return (0,)


def _bytes(message: str | Sequence[int] | None) -> bytes:
    """JSON has a list of numbers for what is not text, nothing for what is not there."""
    if message is None:
        return b""
    return message.encode() if isinstance(message, str) else bytes(message)
