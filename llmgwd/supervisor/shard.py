"""One shard in memory: its record, its processes, and the inbox of its keeper, the only writer."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Unpack

from llmgwd.engines.plan import Process
from llmgwd.model.identifiers import ENGINE
from llmgwd.model.lifecycle import Fact
from llmgwd.supervisor.ports import World
from llmgwd.supervisor.record import Changes, Noted, Record
from llmgwd.supervisor.running import Running


@dataclass(slots=True)
class News:
    """Something that happened. Without a fact it only has to be written down."""

    fact: Fact | None
    reason: str = ""
    changes: Changes = field(default_factory=Changes)
    taken: "asyncio.Future[None] | None" = None


class Shard:
    """Activities read `record`, and change it by `tell` and `note` alone."""

    def __init__(self, record: Record, world: World) -> None:
        self.record = record
        self.world = world
        self.running: dict[str, Running] = {}
        self.adopted = False
        self.pid = 0
        self.health = "unknown"
        self.probe_s = 0.0  # how long the last probe took
        self.unkillable: tuple[str, ...] = ()
        self.inbox: asyncio.Queue[News] = asyncio.Queue()
        self.limit_changed = asyncio.Event()
        self.announce: Callable[[], None] = lambda: None

    @property
    def name(self) -> str:
        """What its record and exit files are filed under."""
        return record_name(self.record.unit)

    @property
    def engine(self) -> Running | None:
        return self.running.get(ENGINE)

    @property
    def has_sidecars(self) -> bool:
        return len(self.record.plan.processes) > 1

    def tell(self, fact: Fact, reason: str = "", **changes: Unpack[Changes]) -> None:
        """News that may move the shard. `changes` hold whatever it does; `reason` only if it moves."""
        self.inbox.put_nowait(News(fact, reason, changes))

    def tell_stopped_by_systemd(self) -> None:
        """Somebody has asked systemd to stop the scope, or the slice, or the machine."""
        self.tell(Fact.SYSTEMD_STOPS, "being stopped by systemd")

    def note(self, *, keep: bool = False, **changes: Unpack[Noted]) -> None:
        """What others may see at once and nothing hinges upon; with `keep` it is written down soon."""
        before = self.record
        self.record = replace(self.record, **changes)
        if self.record == before:
            return
        self.announce()
        if keep:
            self.inbox.put_nowait(News(None))

    def note_pid(self, pid: int) -> None:
        if pid != self.pid:
            self.pid = pid
            self.announce()

    def note_health(self, health: str, reason: str | None = None) -> None:
        """Both at once: whoever is told of the one sees the other."""
        record = self.record if reason is None else replace(self.record, reason=reason)
        if (health, record) != (self.health, self.record):
            self.health, self.record = health, record
            self.announce()

    def launch(self, process: Process) -> None:
        """The gate of one process, shut. Raises EngineUnavailable, OSError."""
        record = self.record
        gate = self.world.launcher.launch(self.name, record.unit, record.id, record.spec, process)
        status = self.world.records.status_path(self.name, process.name)
        self.running[process.name] = Running(process.name, status, gate=gate)


def record_name(unit: str) -> str:
    return unit.removesuffix(".scope")
