"""From a plan to a running engine."""

from llmgwd.host.systemd import ScopeRefused
from llmgwd.model.lifecycle import State
from tests.fakes.world import FakeWorld, unit


async def test_a_shard_becomes_ready(world: FakeWorld) -> None:
    shard = await world.run()
    assert world.story.states("a") == ["starting", "loading", "ready"]
    await world.stop()
    await world.reach(shard, State.STOPPED)
    assert world.exit_file() == "143"


async def test_a_refused_scope_never_opens_the_gate(world: FakeWorld) -> None:
    world.scopes.fail("start", ScopeRefused(f"cannot start scope {unit()}: no"))
    shard = await world.start()
    await world.reach(shard, State.FAILED)
    assert shard.record.reason == f"ScopeFailed: cannot start scope {unit()}: no"
    assert (world.exit_file(), world.program("a").runs) == ("closed", 0)
