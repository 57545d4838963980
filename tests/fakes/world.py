"""A world for the supervisor: real gates, real programs and real records, all else fake and obedient."""

import asyncio
import errno
import os
import resource
import socket
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

from llmgwd.config import AgentConfig, Config, EngineConfig
from llmgwd.engines.plan import Http, NodeFacts, Plan, Process
from llmgwd.host import gate, process
from llmgwd.host.gate import Gate, Program
from llmgwd.host.identity import Identity
from llmgwd.host.journal_reader import Selection
from llmgwd.host.journal_text import Line
from llmgwd.host.records import RecordStore
from llmgwd.host.systemd import scope_name
from llmgwd.model.lifecycle import State
from llmgwd.model.spec import ShardSpec
from llmgwd.supervisor.listener import Listener
from llmgwd.supervisor.node import Node
from llmgwd.supervisor.planning import Planner
from llmgwd.supervisor.ports import Timing, World
from llmgwd.supervisor.record import Record
from llmgwd.supervisor.shard import Shard
from tests.fakes.cgroups import Cgroups
from tests.fakes.scopes import FakeScopes

T = TypeVar("T")
PATIENCE_S = 10.0
_STEP_S = 0.001
FACTS = NodeFacts("10.0.0.1", "eth0", -1, "")


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
            held.released.wait(PATIENCE_S)
        if self.is_full(content):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        super().write(name, content)
        self.written.append(content)


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


class Story(Listener):
    """What a listener was told, in order."""

    def __init__(self) -> None:
        self.told: list[tuple[str, ...]] = []
        self.seen: list[Record] = []

    def added(self, shard: Shard) -> None:
        self.told.append(("added", shard.record.id, shard.record.state))

    def removed(self, shard: Shard) -> None:
        self.told.append(("removed", shard.record.id, shard.record.state))

    def changed(self, shard: Shard, before: State | None) -> None:
        self.seen.append(shard.record)
        if before is not None:
            record = shard.record
            self.told.append(("changed", record.id, before, record.state, record.reason))

    def ended(self, shard: Shard) -> None:
        self.told.append(("ended", shard.record.id, shard.record.state))

    def states(self, id: str) -> list[str]:
        """Those that a shard went through, in order."""
        return [told[3] for told in self.told if told[:2] == ("changed", id)]


class FakeWorld:
    """One machine and, one after the other, the nodes that supervise it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cgroups = Cgroups(folder / "cgroup")
        self.scopes = FakeScopes(self.cgroups)
        self.records = FakeRecords(folder / "state")
        self.records.folder.mkdir()
        self.launcher = FakeLauncher(self.records)
        self.probes = FakeProbes()
        self.logs = FakeLogs()
        self.story = Story()
        self.programs: dict[str, FakeProgram] = {}
        self.world = World(
            scopes=self.scopes,
            launcher=self.launcher,
            records=self.records,
            probes=self.probes,
            logs=self.logs,
            timing=Timing(health_interval_s=_STEP_S, alive_grace_s=0),
            starts=asyncio.Semaphore(16),
            slice="llmgw.slice",
            boot_id="this-boot",
            synchronize=lambda: True,
        )
        self.agent = AgentConfig()
        self.node = self.new_node()

    def new_node(self) -> Node:
        engine = EngineConfig(user="nobody", working_directory=str(self.folder))
        config = Config(agent=self.agent, engines={"command": engine, "llama-cpp": engine})
        self.node = Node(self.world, Planner(config, FACTS))
        self.node.listener = self.story
        return self.node

    def configure(self, agent: AgentConfig) -> None:
        self.agent = agent
        self.new_node()

    def program(self, id: str, name: str = "engine", before: str = "") -> FakeProgram:
        """What a shard runs under that name."""
        if (key := f"{id}-{name}") not in self.programs:
            self.programs[key] = FakeProgram(self.folder, key, before)
        return self.programs[key]

    def values(self, id: str = "a", *sidecars: str, http: bool = False, **more: object) -> dict[str, object]:
        """A spec that runs `program(id)`, and one for each sidecar; with `http` it has to answer."""
        serving = {"port": 8100, "health_path": "/health"} if http else {}
        heads = [{"name": name, "command": list(self.program(id, name).argv)} for name in sidecars]
        return {
            "engine": "command",
            "command": list(self.program(id).argv),
            "sidecars": heads,
            **serving,
            **more,
        }

    async def start(self, id: str = "a", *sidecars: str, http: bool = False, **more: object) -> Shard:
        return await self.node.start(id, self.values(id, *sidecars, http=http, **more))

    async def run(self, id: str = "a", *sidecars: str, http: bool = False, **more: object) -> Shard:
        """Started and ready, each program at work."""
        shard = await self.start(id, *sidecars, http=http, **more)
        await self.reach(shard, State.READY)
        names = ("engine", *sidecars)
        await self.until(lambda: all(self.program(id, name).runs for name in names))
        return shard

    async def stop(self, id: str = "a", *, drain_s: float = 0, limit_s: float | None = None) -> None:
        await self.node.stop(id, drain_s=drain_s, limit_s=limit_s)

    async def reach(self, shard: Shard, state: State) -> None:
        """Returns when the shard is in this state and everybody was told."""
        told = self.story.states
        await self.until(lambda: shard.record.state is state and told(shard.record.id)[-1:] == [state])

    async def until(self, wanted: Callable[[], object]) -> None:
        """Returns as soon as `wanted` is true; it is asked again and again."""
        async with asyncio.timeout(PATIENCE_S):
            while not wanted():  # noqa: ASYNC110  (it may depend on files and processes)
                await asyncio.sleep(_STEP_S)

    async def settle(self, shard: Shard) -> None:
        """What was told is taken, and what can follow at once has followed."""
        await self.until(shard.inbox.empty)
        await asyncio.sleep(10 * _STEP_S)

    async def arrived(self, held: HeldWrite) -> None:
        assert await asyncio.to_thread(held.reached.wait, PATIENCE_S)

    async def restart(self, *, away: Callable[[], object] = lambda: None) -> Shard:
        """The daemon is killed and comes back; `away` happens in between. Gives shard `a`."""
        await self.die()
        away()
        return await self.come_back()

    async def die(self) -> None:
        await self.node.close()
        self.scopes.inherit()
        self.scopes.on_foreign_stop = lambda unit: None

    async def come_back(self) -> Shard:
        node = self.new_node()
        await node.adopt(dict(self.records.read_all()), self.records.set_aside)
        return node.shard("a")

    def exit_file(self, id: str = "a", name: str = "engine") -> str:
        return gate.read_status(self.records.status_path(unit(id).removesuffix(".scope"), name))

    def group(self, id: str = "a") -> str:
        return f"/llmgw.slice/{unit(id)}"

    async def close(self) -> None:
        await self.node.close()
        self.scopes.close()
        for program in self.programs.values():
            program.close()


def unit(id: str = "a") -> str:
    return scope_name(id)


def stranger() -> int:
    """A process that is nobody's."""
    return os.posix_spawn("/bin/sleep", ["sleep", "1000"], {})


def is_alive(pid: int) -> bool:
    return process.state(pid) not in {"Z", "X"}


def _lines(path: Path) -> int:
    return path.read_text().count("\n") if path.exists() else 0
