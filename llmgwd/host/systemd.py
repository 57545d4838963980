"""PID 1 (or the user's manager) over D-Bus: transient scopes, made, found, stopped, and news of them."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from llmgwd.bus.connection import BusLost, CallFailed, CallTimedOut, Connection, Signal
from llmgwd.bus.library import Variant
from llmgwd.bus.names import unit_path
from llmgwd.bus.values import plain
from llmgwd.host.jobs import EndedJobs
from llmgwd.host.scope_names import PREFIX, SCOPES

log = logging.getLogger(__name__)

_SERVICE = "org.freedesktop.systemd1"
_PATH = "/org/freedesktop/systemd1"
_MANAGER = "org.freedesktop.systemd1.Manager"
_UNIT = "org.freedesktop.systemd1.Unit"
_JOB = "org.freedesktop.systemd1.Job"
_PROPERTIES = "org.freedesktop.DBus.Properties"
_PEER = "org.freedesktop.DBus.Peer"
_BUS = "org.freedesktop.DBus"

# PID 1 is deaf for over a second while it reloads; a job may wait for other jobs.
_CALL_S = 25.0
_JOB_S = 30.0

# What the bus answers in place of a PID 1 that is executing itself anew: nothing is known then.
_AWAY = frozenset(
    f"org.freedesktop.DBus.Error.{name}"
    for name in ("NoReply", "NameHasNoOwner", "ServiceUnknown", "Disconnected")
)
_AWAY_STEP_S = 0.1
# How long an end may wait for PID 1 to say whether it was ordered.
_NEWS_S = 5.0

_STOPS = frozenset({"stop", "restart", "try-restart"})


class ScopeExists(Exception):  # noqa: N818
    """A unit of that name is loaded."""


class ScopeRefused(Exception):  # noqa: N818
    """systemd will not make this scope; the text says why."""


@dataclass(frozen=True, slots=True)
class Scope:
    """A scope that systemd has loaded."""

    unit: str
    active_state: str
    invocation_id: str
    control_group: str


class Systemd:
    """One per daemon. `on_foreign_stop` hears of a unit of ours that somebody else is stopping."""

    def __init__(self, connection: Connection) -> None:
        self._bus = connection
        self._starting: dict[str, EndedJobs] = {}  # by unit
        self._ours: set[str] = set()  # units that we are stopping
        self._foreign: set[str] = set()  # units that somebody else is stopping
        self._looks: dict[tuple[str, str], asyncio.Task[None]] = {}  # by unit and job that we did not queue
        self._resuming: asyncio.Task[None] | None = None
        self._oom_policy = True
        self.on_foreign_stop: Callable[[str], None] = lambda unit: None

    async def open(self) -> None:
        await self._bus.subscribe(
            self._on_job_removed, sender=_SERVICE, interface=_MANAGER, member="JobRemoved"
        )
        await self._bus.subscribe(self._on_job_new, sender=_SERVICE, interface=_MANAGER, member="JobNew")
        await self._bus.subscribe(
            self._on_owner, sender=_BUS, interface=_BUS, member="NameOwnerChanged", arg0=_SERVICE
        )
        self._bus.on_reconnect.append(self._resume)
        await self._subscribe()

    async def start(
        self, unit: str, pids: tuple[int, ...], *, description: str, properties: Mapping[str, Variant]
    ) -> None:
        """The processes are in their scope when this returns.

        Raises ScopeExists, ScopeRefused; BusLost or CallTimedOut when the outcome is not known.
        """
        wanted = {
            "PIDs": Variant("au", list(pids)),
            "Description": Variant("s", description),
            "CollectMode": Variant("s", "inactive-or-failed"),
            **properties,
        }
        ended = self._starting[unit] = EndedJobs()
        self._ours.discard(unit)
        self._foreign.discard(unit)
        try:
            job = await self._start_transient(unit, wanted)
            async with asyncio.timeout(_JOB_S):
                result = await ended.wait(job)
        except TimeoutError as error:
            raise CallTimedOut(f"the start job of {unit} did not end in {_JOB_S:g} s") from error
        finally:
            del self._starting[unit]
        if result != "done":
            raise ScopeRefused(f"the start job of {unit} ended with {result}")

    async def find(self, unit: str) -> Scope | None:
        """`None` where there is no such unit. Raises BusLost, CallTimedOut."""
        try:
            await self._manager("GetUnit", "s", unit)
            state = await self._get(unit, _UNIT, "ActiveState")
            invocation = await self._get(unit, _UNIT, "InvocationID")
            group = await self._get(unit, "org.freedesktop.systemd1.Scope", "ControlGroup")
        except CallFailed as error:
            if error.error.endswith(
                (".NoSuchUnit", ".UnknownObject", ".UnknownProperty", ".UnknownInterface")
            ):
                return None
            raise
        if state in {"inactive", "failed"}:
            return None
        return Scope(unit, str(state), bytes(invocation).hex(), str(group))

    async def invocation_id(self, unit: str) -> str:
        """Of a loaded unit, as 32 hex digits; empty where there is none. Raises BusLost, CallTimedOut."""
        try:
            value = await self._get(unit, _UNIT, "InvocationID")
        except CallFailed:
            return ""
        return bytes(value).hex()

    async def scopes(self) -> tuple[Scope, ...]:
        """All scopes that carry our names. Raises BusLost, CallTimedOut."""
        (units,) = await self._manager("ListUnitsByPatterns", "asas", [], [SCOPES])
        names = [unit[0] for unit in units if unit[3] not in {"inactive", "failed"}]
        found = await asyncio.gather(*(self.find(name) for name in names))
        return tuple(scope for scope in found if scope is not None)

    async def stop(self, unit: str) -> None:
        """Orders SIGTERM to all, SIGKILL after the scope's own time limit. No such unit is no error."""
        self._ours.add(unit)
        await self._order("StopUnit", "ss", unit, "replace")

    async def kill(self, unit: str, signal: int) -> None:
        """Signals every process of the scope. No such unit is no error."""
        self._ours.add(unit)
        await self._order("KillUnit", "ssi", unit, "all", signal)

    async def is_stopped_by_others(self, unit: str) -> bool:
        """Whether a stop of `unit` was queued that we did not order.

        PID 1 sends the news of a job before it answers us, so that a round trip makes the answer current.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_NEWS_S):
                await self.wait_reachable()
        looks = [look for (looked_at, _), look in self._looks.items() if looked_at == unit]
        if looks:
            await asyncio.wait(looks, timeout=_NEWS_S)
        return unit in self._foreign

    async def wait_reachable(self) -> None:
        """Returns when PID 1 answers; it is off the bus for a moment while it executes itself anew."""
        while True:
            await self._bus.wait_connected()
            with contextlib.suppress(BusLost, CallTimedOut, CallFailed):
                await self._call(_PATH, _PEER, "Ping")
                return
            await asyncio.sleep(_AWAY_STEP_S)

    async def _start_transient(self, unit: str, properties: dict[str, Variant]) -> str:
        if self._oom_policy:
            properties = properties | {"OOMPolicy": Variant("s", "continue")}
        body = [[name, value] for name, value in properties.items()]
        try:
            (job,) = await self._manager("StartTransientUnit", "ssa(sv)a(sa(sv))", unit, "fail", body, [])
        except CallFailed as error:
            name = error.error.rpartition(".")[2]
            if name == "PropertyReadOnly" and "OOMPolicy" in properties and "OOMPolicy" in error.text:
                if self._oom_policy:  # one of a burst is the first to learn it
                    log.info("this systemd has no OOMPolicy for scopes; it is left out")
                self._oom_policy = False
                properties.pop("OOMPolicy")
                return await self._start_transient(unit, properties)
            if name == "UnitExists":
                raise ScopeExists(unit) from error
            raise ScopeRefused(f"cannot start scope {unit}: {error.text}") from error
        return str(job)

    async def _resume(self) -> None:
        for ended in self._starting.values():
            ended.miss()
        # After a restart of the bus PID 1 may be back on it later than we are.
        while True:
            await self.wait_reachable()
            with contextlib.suppress(CallTimedOut):
                await self._subscribe()
                return

    async def _subscribe(self) -> None:
        with contextlib.suppress(CallFailed):  # AlreadySubscribed
            await self._manager("Subscribe")

    async def _order(self, member: str, signature: str, unit: str, *rest: object) -> None:
        try:
            await self._manager(member, signature, unit, *rest)
        except CallFailed as error:
            if not error.error.endswith((".NoSuchUnit", ".NoSuchProcess")):
                raise

    async def _manager(self, member: str, signature: str = "", *body: object) -> list[Any]:
        return await self._call(_PATH, _MANAGER, member, signature, *body)

    async def _get(self, unit: str, interface: str, name: str) -> Any:
        return await self._get_from(unit_path(unit), interface, name)

    async def _get_from(self, path: str, interface: str, name: str) -> Any:
        (value,) = await self._call(path, _PROPERTIES, "Get", "ss", interface, name)
        return plain(value)

    async def _call(
        self, path: str, interface: str, member: str, signature: str = "", *body: object
    ) -> list[Any]:
        try:
            return await self._bus.call(
                _SERVICE, path, interface, member, signature, *body, timeout_s=_CALL_S
            )
        except CallFailed as error:
            if error.error in _AWAY:
                raise CallTimedOut(f"systemd was off the bus when asked to {member}") from error
            raise

    def _on_job_removed(self, signal: Signal) -> None:
        _, job, unit, result = signal.body
        if (ended := self._starting.get(str(unit))) is not None:
            ended.add(str(job), str(result))
        else:
            self._ours.discard(str(unit))

    def _on_job_new(self, signal: Signal) -> None:
        _, job, unit = map(str, signal.body)
        if not unit.startswith(PREFIX) or unit in self._starting or unit in self._ours:
            return
        look = asyncio.get_running_loop().create_task(self._look(unit, job))
        self._looks[unit, job] = look
        look.add_done_callback(lambda _: self._looks.pop((unit, job), None))

    def _on_owner(self, signal: Signal) -> None:
        _, _, owner = signal.body
        if owner:
            self._resuming = asyncio.get_running_loop().create_task(self._resume_with_new_pid1())

    async def _resume_with_new_pid1(self) -> None:
        # It may have forgotten who wants to hear of jobs. A lost bus is resumed by itself.
        with contextlib.suppress(BusLost):
            await self._resume()

    async def _look(self, unit: str, job: str) -> None:
        while True:
            try:
                stops = await self._is_stop(unit, job)
            except (BusLost, CallTimedOut):
                try:
                    await self.wait_reachable()
                except BusLost:  # closed for good
                    return
            except CallFailed:
                return
            else:
                break
        if stops and unit not in self._foreign:
            self._foreign.add(unit)
            self.on_foreign_stop(unit)

    async def _is_stop(self, unit: str, job: str) -> bool:
        # `systemctl start` of a running scope makes a job, too, one that does nothing.
        try:
            return await self._get_from(job, _JOB, "JobType") in _STOPS
        except CallFailed:  # it has ended
            scope = await self.find(unit)
            return scope is None or scope.active_state == "deactivating"
