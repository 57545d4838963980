"""A manager that is none: owns systemd's name on a private bus and answers what llmgwd.host.systemd asks."""

import asyncio
from collections.abc import Callable
from typing import Any

from llmgwd.bus.calls import Emit
from llmgwd.bus.connection import Connection
from llmgwd.bus.library import Message, Variant
from llmgwd.bus.names import unit_path

SERVICE = "org.freedesktop.systemd1"
ROOT = "/org/freedesktop/systemd1"
MANAGER = "org.freedesktop.systemd1.Manager"
UNIT = "org.freedesktop.systemd1.Unit"
SCOPE = "org.freedesktop.systemd1.Scope"
JOB = "org.freedesktop.systemd1.Job"
NO_SUCH_UNIT = "org.freedesktop.systemd1.NoSuchUnit"

Send = Callable[[Message], object]
Call = tuple[str, list[Any]]


class FakePid1:
    """`started`: when the end of a start job is told, "before" or "after" the answer to it, or "never"."""

    def __init__(self, connection: Connection) -> None:
        self.calls: list[Call] = []
        self.units: dict[str, dict[tuple[str, str], Variant]] = {}
        self.refusals: dict[str, list[tuple[str, str]]] = {}
        self.held: set[str] = set()
        self.started = "after"
        self.result = "done"
        self.knows_oom_policy = True
        self.system_state = "running"
        self._emit: Emit = connection.emit
        self.jobs: dict[str, str] = {}
        self._jobs = 0
        self._news = asyncio.Event()
        connection.serve(self)  # type: ignore[arg-type]  # stands in for Objects: it orders its own messages

    def put(self, unit: str, state: str = "active", invocation: bytes = b"\1" * 16, group: str = "") -> None:
        """The unit is loaded."""
        self.units[unit] = {
            (UNIT, "ActiveState"): Variant("s", state),
            (UNIT, "InvocationID"): Variant("ay", invocation),
            (SCOPE, "ControlGroup"): Variant("s", group or f"/llmgw.slice/{unit}"),
        }

    def refuse(self, member: str, error: str, text: str, times: int = 1) -> None:
        """The next calls are answered with an error."""
        self.refusals.setdefault(member, []).extend([(error, text)] * times)

    def job_new(self, unit: str, kind: str = "stop", *, ended: bool = False) -> None:
        """A job is there, or was: it may have ended before anybody can ask."""
        self._jobs += 1
        path = f"{ROOT}/job/{self._jobs}"
        if not ended:
            self.jobs[path] = kind
        self._emit(ROOT, MANAGER, "JobNew", "uos", self._jobs, path, unit)

    def job_removed(self, unit: str, result: str = "done", *, job: int = 0) -> None:
        """Of this job, or of the latest."""
        number = job or self._jobs
        path = f"{ROOT}/job/{number}"
        self.jobs.pop(path, None)
        self._emit(ROOT, MANAGER, "JobRemoved", "uoss", number, path, unit, result)

    async def until(self, member: str, times: int = 1) -> None:
        """Returns when it was called so many times."""
        while len(self.asked(member)) < times:
            self._news.clear()
            await self._news.wait()

    def asked(self, member: str) -> list[list[Any]]:
        """The arguments of all calls of this member."""
        return [body for name, body in self.calls if name == member]

    # What a connection asks of the objects that it serves

    def served(self, emit: Emit) -> None:
        """Signals leave by it already."""

    async def close(self) -> None:
        """No call is answered later."""

    def received(self, message: Message, send: Send) -> None:
        member = message.member or ""
        self.calls.append((member, message.body))
        self._news.set()
        if member in self.held:
            return
        if refusals := self.refusals.get(member):
            send(Message.new_error(message, *refusals.pop(0)))
            return
        {
            "Subscribe": self._nothing,
            "Ping": self._nothing,
            "StopUnit": self._job,
            "KillUnit": self._nothing,
            "GetUnit": self._get_unit,
            "Get": self._get,
            "ListUnitsByPatterns": self._list,
            "StartTransientUnit": self._start,
        }[member](message, send)

    def _nothing(self, message: Message, send: Send) -> None:
        send(Message.new_method_return(message))

    def _job(self, message: Message, send: Send) -> None:
        self.job_new(message.body[0])
        send(Message.new_method_return(message, "o", [f"{ROOT}/job/{self._jobs}"]))

    def _start(self, message: Message, send: Send) -> None:
        unit = message.body[0]
        if not self.knows_oom_policy and "OOMPolicy" in [name for name, _ in message.body[2]]:
            text = "Cannot set property OOMPolicy, or unknown property."
            send(Message.new_error(message, "org.freedesktop.DBus.Error.PropertyReadOnly", text))
            return
        self.job_new(unit, "start")
        if self.started == "before":
            self.job_removed(unit, self.result)
        send(Message.new_method_return(message, "o", [f"{ROOT}/job/{self._jobs}"]))
        if self.started == "after":
            self.job_removed(unit, self.result)

    def _get_unit(self, message: Message, send: Send) -> None:
        unit = message.body[0]
        if unit not in self.units:
            send(Message.new_error(message, NO_SUCH_UNIT, f"Unit {unit} not loaded."))
            return
        send(Message.new_method_return(message, "o", [unit_path(unit)]))

    def _get(self, message: Message, send: Send) -> None:
        interface, name = message.body
        at = {unit_path(unit): properties for unit, properties in self.units.items()}
        at |= {path: {(JOB, "JobType"): Variant("s", kind)} for path, kind in self.jobs.items()}
        at[ROOT] = {(MANAGER, "SystemState"): Variant("s", self.system_state)}
        if message.path not in at:
            error = "org.freedesktop.DBus.Error.UnknownObject"
            send(Message.new_error(message, error, f"Unknown object '{message.path}'."))
            return
        send(Message.new_method_return(message, "v", [at[message.path][interface, name]]))

    def _list(self, message: Message, send: Send) -> None:
        rows = [
            [unit, "", "loaded", found[UNIT, "ActiveState"].value, "", "", unit_path(unit), 0, "", "/"]
            for unit, found in self.units.items()
        ]
        send(Message.new_method_return(message, "a(ssssssouso)", [rows]))
