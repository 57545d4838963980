"""A world for the supervisor: real gates, real programs and real records, all else fake and obedient."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from llmgwd.config import AgentConfig, Config, EngineConfig
from llmgwd.engines.facts import NodeFacts
from llmgwd.engines.registry import Engines
from llmgwd.host import gate
from llmgwd.host.scope_names import scope_name
from llmgwd.model.lifecycle import State
from llmgwd.supervisor.listener import Listener
from llmgwd.supervisor.node import Node
from llmgwd.supervisor.planning import Planner
from llmgwd.supervisor.ports import Timing, World
from llmgwd.supervisor.record import Record
from llmgwd.supervisor.shard import Shard
from tests.fakes.cgroups import Cgroups
from tests.fakes.ports import FakeLauncher, FakeLogs, FakeProbes, FakeRecords
from tests.fakes.program import FakeProgram, is_alive
from tests.fakes.scopes import FakeScopes

_PATIENCE_S = 10.0
_STEP_S = 0.001
FACTS = NodeFacts(management_address="10.0.0.1", management_interface="eth0")


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
        self.node = Node(self.world, Planner(config, Engines(), FACTS))
        self.node.listener = self.story
        return self.node

    def configure(self, agent: AgentConfig) -> None:
        self.agent = agent
        self.new_node()

    def program(self, id: str, name: str = "engine", before: str = "") -> FakeProgram:
        """What a shard runs under that name."""
        if (key := f"{id}-{name}") not in self.programs:
            self.programs[key] = FakeProgram(self.folder, f"program-{len(self.programs)}", before)
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
        async with asyncio.timeout(_PATIENCE_S):
            while not wanted():  # noqa: ASYNC110  (it may depend on files and processes)
                await asyncio.sleep(_STEP_S)

    async def settle(self, shard: Shard) -> None:
        """What was told is taken, and what can follow at once has followed."""
        await self.until(shard.inbox.empty)
        await asyncio.sleep(10 * _STEP_S)

    async def restart(self, *, away: Callable[[], object] = lambda: None) -> Shard:
        """The daemon is killed and comes back; `away` happens in between. Gives shard `a`."""
        await self.die()
        away()
        return await self.come_back()

    async def die(self) -> None:
        """The daemon is killed. It takes longer to come back than a shut gate to end."""
        held = [one for shard in self.node.shards() for one in shard.running.values() if not one.opened]
        shut = [pid.pid for one in held if (pid := one.identity)]
        await self.node.close()
        await self.until(lambda: not any(map(is_alive, shut)))
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
        await asyncio.to_thread(self.world.writers.shutdown)  # a write may still be under way
        self.scopes.close()
        for program in self.programs.values():
            program.close()


def unit(id: str = "a") -> str:
    return scope_name(id)
