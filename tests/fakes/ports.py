"""What the supervisor needs from its machine, obedient: real gates and records, fake probes and logs."""

import asyncio
import errno
import json
import os
import resource
import socket
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

from llmgwd.engines.plan import Http, Plan, Process
from llmgwd.host import gate
from llmgwd.host.gate import Gate, Program
from llmgwd.host.identity import Identity
from llmgwd.host.journal_reader import Selection
from llmgwd.host.journal_text import Line
from llmgwd.host.records import RecordStore
from llmgwd.model.spec import ShardSpec

T = TypeVar("T")
_PATIENCE_S = 10.0


class Script(Generic[T]):
    """Answers one after the other; the last one is given for ever."""

    def __init__(self, *answers: T) -> None:
        self._answers = deque(answers)
        self.given = 0

    def say(self, *answers: T) -> None:
        self._answers = deque(answers)

    def next(self) -> T:
        self.given += 1
        return self._answers.popleft() if len(self._answers) > 1 else self._answers[0]


class FakeProbes:
    """`obstacles`: what the engine answers, empty when it serves; `asked` tells with what it was asked."""

    def __init__(self) -> None:
        self.obstacles = Script("")
        self.listening = Script(True)
        self.established = Script(0)
        self.asked: list[tuple[Http, str, bool]] = []
        self.looked_for: list[tuple[str, int]] = []

    async def ask(self, http: Http, control_group: str, *, verify_listener: bool) -> str:
        self.asked.append((http, control_group, verify_listener))
        await asyncio.sleep(0)
        return self.obstacles.next()

    async def is_listening(self, host: str, port: int) -> bool:
        self.looked_for.append((host, port))
        await asyncio.sleep(0)
        return self.listening.next()

    async def connections(self, http: Http) -> int:
        await asyncio.sleep(0)
        return self.established.next()


class FakeLogs:
    """What `tail` gives, and what it was asked for."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.error: Exception | None = None
        self.asked: list[tuple[Selection, int]] = []

    def tail(self, selection: Selection, lines: int) -> list[Line]:
        self.asked.append((selection, lines))
        if self.error is not None:
            raise self.error
        return self.lines[-lines:]


@dataclass(slots=True)
class HeldWrite:
    """A write that waits in its thread: `reached` once it is there, it goes on with `released`."""

    wanted: Callable[[Mapping[str, object]], bool]
    reached: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)

    async def arrived(self) -> None:
        assert await asyncio.to_thread(self.reached.wait, _PATIENCE_S)


class FakeRecords(RecordStore):
    """The real one. `is_full(content)` says which writes find no room; one write can be held."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.is_full: Callable[[Mapping[str, object]], bool] = lambda content: False
        self.written: list[dict[str, object]] = []
        self._held: HeldWrite | None = None

    def hold(self, wanted: Callable[[Mapping[str, object]], bool]) -> HeldWrite:
        self._held = HeldWrite(wanted)
        return self._held

    def write(self, name: str, content: dict[str, object]) -> None:
        if (held := self._held) is not None and held.wanted(content):
            self._held = None
            held.reached.set()
            held.released.wait(_PATIENCE_S)
        if self.is_full(content):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        super().write(name, content)
        self.written.append(json.loads(json.dumps(content)))


class FakeLauncher:
    """Real gates, as this user, without a journal. `refusals` by process name: one a launch."""

    def __init__(self, records: RecordStore) -> None:
        self._records = records
        self.refusals: dict[str, Exception] = {}
        self.unavailable: Exception | None = None
        self.user: Identity | None = None
        self.launched: list[tuple[str, str]] = []
        self.gates: list[Gate] = []

    def identity(self, spec: ShardSpec) -> Identity | None:
        return self.user

    def resolve(self, spec: ShardSpec, plan: Plan) -> Plan:
        if self.unavailable is not None:
            raise self.unavailable
        return plan

    def launch(self, name: str, unit: str, shard: str, spec: ShardSpec, process: Process) -> Gate:
        self.launched.append((shard, process.name))
        if (refusal := self.refusals.pop(process.name, None)) is not None:
            raise refusal
        program = Program(
            argv=process.argv,
            environment={"PATH": "/usr/bin:/bin"},
            working_directory=process.working_directory,
            identity=None,
            nofile=resource.getrlimit(resource.RLIMIT_NOFILE)[1],
            memlock=resource.getrlimit(resource.RLIMIT_MEMLOCK)[1],
        )
        output, ours = socket.socketpair()
        with output, ours:
            made = gate.spawn(program, output=output, status=self._records.status_path(name, process.name))
        self.gates.append(made)
        return made
