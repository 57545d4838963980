"""PID 1 as the supervisor needs it, for real processes: it can delay, refuse and lose its answers."""

import asyncio
import contextlib
import os
import signal
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from llmgwd.bus.library import Variant
from llmgwd.host.process import NoSuchProcess
from llmgwd.host.systemd import Scope, ScopeExists, ScopeRefused
from tests.fakes.cgroups import Cgroups

SLICE = "/llmgw.slice"
# How long PID 1 takes to remove what has become empty.
_REMOVAL_S = 0.002
_PATIENCE_S = 10.0


@dataclass(slots=True)
class Trouble:
    """What happens to one call: `reached` once it has arrived, it goes on with `released`."""

    error: Exception | None = None
    afterwards: bool = False  # the call is carried out, its answer lost
    reached: asyncio.Event = field(default_factory=asyncio.Event)
    released: asyncio.Event = field(default_factory=asyncio.Event)

    async def arrived(self) -> None:
        async with asyncio.timeout(_PATIENCE_S):
            await self.reached.wait()


@dataclass(slots=True)
class _Made:
    """A scope; an `empty` one stays until it is stopped, others go with their last process."""

    scope: Scope
    properties: Mapping[str, Variant]
    pids: dict[int, int] = field(default_factory=dict)  # to their pidfds
    empty: bool = False


class FakeScopes:
    """Members are the processes that a scope was started with, and their children."""

    def __init__(self, cgroups: Cgroups) -> None:
        self.cgroups = cgroups
        self.on_foreign_stop: Callable[[str], None] = lambda unit: None
        self.calls: list[tuple[str, str]] = []
        self.foreign: set[str] = set()
        self.immortal = False  # signals change nothing, as with processes in an uninterruptible sleep
        self.reachable = asyncio.Event()
        self.reachable.set()
        self.stuck = False  # an empty scope stays, whatever is ordered
        self.made = 0
        self._made: dict[str, _Made] = {}
        self._inherited: set[int] = set()
        self._troubles: defaultdict[str, deque[Trouble]] = defaultdict(deque)

    # What a test orders

    def fail(self, call: str, error: Exception, *, afterwards: bool = False) -> None:
        """The next call of that name fails; with `afterwards` it was carried out all the same."""
        trouble = Trouble(error, afterwards)
        trouble.released.set()
        self._troubles[call].append(trouble)

    def hold(self, call: str, *, error: Exception | None = None, afterwards: bool = False) -> Trouble:
        """The next call of that name waits until it is released."""
        trouble = Trouble(error, afterwards)
        self._troubles[call].append(trouble)
        return trouble

    def put(self, unit: str, *pids: int, invocation_id: str = "") -> Scope:
        """A scope of that name is there, with these processes or empty."""
        self.made += 1
        scope = Scope(unit, "active", invocation_id or f"{self.made:032x}", f"{SLICE}/{unit}")
        made = self._made[unit] = _Made(scope, {}, empty=not pids)
        self._add(made, pids)
        return scope

    def stop_by_others(self, unit: str) -> None:
        """`systemctl stop`, or a shutdown."""
        self.foreign.add(unit)
        self.on_foreign_stop(unit)
        self._signal(unit, signal.SIGTERM)

    def kill_all(self, unit: str) -> None:
        """SIGKILL to everything in the scope, as PID 1 sends it at the scope's own limit."""
        self._signal(unit, signal.SIGKILL)

    def pids(self, unit: str) -> set[int]:
        """The living members."""
        made = self._made.get(unit)
        return set(self._look(made)) if made else set()

    def exists(self, unit: str) -> bool:
        return unit in self._made

    def properties(self, unit: str) -> Mapping[str, Variant]:
        return self._made[unit].properties

    def called(self, call: str) -> int:
        return sum(name == call for name, _ in self.calls)

    def control_group(self, pid: int) -> str:
        """In place of llmgwd.host.process.control_group."""
        for made in self._made.values():
            if pid in self._look(made):
                return made.scope.control_group
        if not Path(f"/proc/{pid}").exists():
            raise NoSuchProcess(f"pid {pid}")
        return "/tests"

    def inherit(self) -> None:
        """The daemon is dead: from now on PID 1 reaps what is there."""
        self._inherited = {pid for made in self._made.values() for pid in self._look(made)}

    def close(self) -> None:
        for made in self._made.values():
            for pidfd in made.pids.values():
                asyncio.get_running_loop().remove_reader(pidfd)
                os.close(pidfd)
        self._made.clear()

    # What the supervisor asks

    async def start(
        self, unit: str, pids: tuple[int, ...], *, description: str, properties: Mapping[str, Variant]
    ) -> None:
        async with self._called("start", unit):
            if unit in self._made:
                raise ScopeExists(unit)
            if not any(map(_is_alive, pids)):
                raise ScopeRefused(f"the start job of {unit} ended with failed")
            self.put(unit, *pids)
            self._made[unit].properties = {"Description": Variant("s", description), **properties}

    async def find(self, unit: str) -> Scope | None:
        async with self._called("find", unit):
            self.pids(unit)
            return self._made[unit].scope if unit in self._made else None

    async def invocation_id(self, unit: str) -> str:
        async with self._called("invocation_id", unit):
            return self._made[unit].scope.invocation_id if unit in self._made else ""

    async def scopes(self) -> tuple[Scope, ...]:
        async with self._called("scopes", ""):
            return tuple(made.scope for made in self._made.values())

    async def stop(self, unit: str) -> None:
        async with self._called("stop", unit):
            self._signal(unit, signal.SIGTERM)
            if unit in self._made and self._made[unit].empty and not self.stuck:
                self._remove(self._made[unit])

    async def kill(self, unit: str, signal: int) -> None:
        async with self._called("kill", unit):
            self._signal(unit, signal)

    async def is_stopped_by_others(self, unit: str) -> bool:
        async with self._called("is_stopped_by_others", unit):
            return unit in self.foreign

    async def wait_reachable(self) -> None:
        await self.reachable.wait()

    # Inside

    @contextlib.asynccontextmanager
    async def _called(self, call: str, unit: str) -> AsyncIterator[None]:
        self.calls.append((call, unit))
        troubles = self._troubles[call]
        trouble = troubles.popleft() if troubles else None
        if trouble is not None:
            trouble.reached.set()
            await trouble.released.wait()
            if trouble.error is not None and not trouble.afterwards:
                raise trouble.error
        yield
        if trouble is not None and trouble.error is not None:
            raise trouble.error

    def _signal(self, unit: str, number: int) -> None:
        made = self._made.get(unit)
        if made is None or self.immortal:
            return
        for pidfd in self._look(made).values():
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(pidfd, number)

    def _look(self, made: _Made) -> dict[int, int]:
        """Takes in the children that were born since; a child stays a member when its parent has gone."""
        found = len(made.pids)
        parents = list(made.pids)
        while parents:
            born = [pid for parent in parents for pid in _children(parent) if pid not in made.pids]
            self._add(made, born, put=False)
            parents = born
        if len(made.pids) != found:
            self.cgroups.put(made.scope.control_group, made.pids)
        return made.pids

    def _add(self, made: _Made, pids: Iterable[int], *, put: bool = True) -> None:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                pidfd = os.pidfd_open(pid)
                made.pids[pid] = pidfd
                asyncio.get_running_loop().add_reader(pidfd, self._ended, made, pid)
        if put:
            self.cgroups.put(made.scope.control_group, made.pids)

    def _ended(self, made: _Made, pid: int) -> None:
        self._look(made)
        pidfd = made.pids.pop(pid)
        asyncio.get_running_loop().remove_reader(pidfd)
        os.close(pidfd)
        if pid in self._inherited:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        self.cgroups.put(made.scope.control_group, made.pids)
        if not made.pids:
            asyncio.get_running_loop().call_later(_REMOVAL_S, self._remove, made)

    def _remove(self, made: _Made) -> None:
        unit = made.scope.unit
        if self._made.get(unit) is made:
            del self._made[unit]
            self.cgroups.remove(made.scope.control_group)


def _children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in {"Z", "X"}
    except OSError:
        return False
