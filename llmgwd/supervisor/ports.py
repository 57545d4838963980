"""What the supervisor needs from the world, as it asks for it; host/ gives it, tests give fakes."""

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from llmgwd.bus.library import Variant
from llmgwd.engines.plan import Http, Plan, Process
from llmgwd.host.gate import Gate
from llmgwd.host.identity import Identity
from llmgwd.host.journal_reader import Selection
from llmgwd.host.journal_text import Line
from llmgwd.host.systemd import Scope
from llmgwd.model.spec import ShardSpec


class Scopes(Protocol):
    """host/systemd.py: all of these raise BusLost and CallTimedOut, after which nothing is known."""

    on_foreign_stop: Callable[[str], None]

    async def start(
        self, unit: str, pids: tuple[int, ...], *, description: str, properties: Mapping[str, Variant]
    ) -> None: ...
    async def find(self, unit: str) -> Scope | None: ...
    async def invocation_id(self, unit: str) -> str: ...
    async def scopes(self) -> tuple[Scope, ...]: ...
    async def stop(self, unit: str) -> None: ...
    async def kill(self, unit: str, signal: int) -> None: ...
    async def is_stopped_by_others(self, unit: str) -> bool: ...
    async def wait_reachable(self) -> None: ...


class Launches(Protocol):
    """host/launcher.py."""

    def identity(self, spec: ShardSpec) -> Identity | None: ...
    def resolve(self, spec: ShardSpec, plan: Plan) -> Plan: ...
    def launch(self, name: str, unit: str, shard: str, spec: ShardSpec, process: Process) -> Gate: ...


class Records(Protocol):
    """host/records.py."""

    def write(self, name: str, content: dict[str, object]) -> None: ...
    def remove(self, name: str) -> None: ...
    def status_path(self, name: str, process: str) -> Path: ...


class Probes(Protocol):
    """host/probe.py: never raises for what a server does."""

    async def ask(self, http: Http, control_group: str, *, verify_listener: bool) -> str: ...
    async def is_listening(self, host: str, port: int) -> bool: ...
    async def connections(self, http: Http) -> int: ...


class Logs(Protocol):
    """host/journal_reader.py: blocking."""

    def tail(self, selection: Selection, lines: int) -> list[Line]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Seconds, from the configuration."""

    health_interval_s: float
    alive_grace_s: float


@dataclass(slots=True, kw_only=True)
class World:
    """`starts` bounds how many scopes are being made at once; `synchronize` makes last words readable."""

    scopes: Scopes
    launcher: Launches
    records: Records
    probes: Probes
    logs: Logs
    timing: Timing
    starts: asyncio.Semaphore
    slice: str
    boot_id: str
    synchronize: Callable[[], bool]
    # Threads of their own: what hangs elsewhere (a dead file system, say) must not keep a stop unrecorded.
    writers: Executor = field(default_factory=lambda: ThreadPoolExecutor(4, "records"))

    async def write(self, name: str, content: dict[str, object]) -> None:
        """Durable when it returns. Raises OSError."""
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self.writers, self.records.write, name, content)
