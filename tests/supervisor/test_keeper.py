"""The keeper of one shard: its news one at a time, by the tables, written down and told."""

import asyncio
import os
import signal

import pytest

from llmgwd.bus.connection import BusLost
from llmgwd.model.errors import WrongState
from llmgwd.model.lifecycle import Fact, Phase, State
from llmgwd.supervisor import watching
from llmgwd.supervisor.record import from_json
from llmgwd.supervisor.shard import Shard
from tests.fakes.program import IGNORES_TERM, is_alive
from tests.fakes.world import FakeWorld, unit


def end(shard: Shard) -> tuple[str, str, int, str]:
    record = shard.record
    return record.state, record.reason, record.exit_code, record.exit_signal


@pytest.mark.parametrize("code", [0, 1, 37, 255])
async def test_an_engine_that_exits_by_itself_has_failed_whatever_its_status(
    world: FakeWorld, code: int
) -> None:
    shard = await world.run()
    world.program("a").exit(code)
    await world.reach(shard, State.FAILED)
    assert end(shard) == ("failed", f"engine exited {code}", code, "")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
async def test_an_engine_that_is_killed_by_a_signal_has_failed_and_says_by_which(
    world: FakeWorld, number: signal.Signals
) -> None:
    shard = await world.run()
    os.kill(shard.pid, number)
    await world.reach(shard, State.FAILED)
    assert end(shard) == ("failed", f"engine was killed by {number.name}", 128 + number, number.name)


async def test_an_engine_that_is_killed_together_with_its_gate_was_killed(world: FakeWorld) -> None:
    shard = await world.run()
    world.scopes.kill_all(unit())
    await world.reach(shard, State.FAILED)
    assert end(shard) == ("failed", "engine was killed by SIGKILL", 137, "SIGKILL")


async def test_an_engine_that_has_lost_its_gate_is_stopped(
    world: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "_LOST_GATE_S", 0.01)
    shard = await world.run()
    engine = shard.pid
    world.scopes.pids(unit())
    os.kill(shard.record.pids["engine"].pid, signal.SIGKILL)
    await world.reach(shard, State.FAILED)
    assert (end(shard), is_alive(engine)) == (("failed", "engine lost its gate", -1, ""), False)


async def test_what_the_kernel_killed_for_want_of_memory_is_counted(world: FakeWorld) -> None:
    shard = await world.run()
    world.cgroups.count_oom_kills(world.group(), 2)
    held = world.scopes.hold("is_stopped_by_others")
    os.kill(shard.pid, signal.SIGKILL)
    await held.arrived()
    await world.until(lambda: not world.scopes.exists(unit()))
    held.released.set()
    await world.reach(shard, State.FAILED)
    assert (shard.record.oom_kills, shard.record.exit_signal) == (2, "SIGKILL")


async def test_a_sidecar_that_ends_before_the_engine_is_up_fails_the_shard(world: FakeWorld) -> None:
    world.probes.obstacles.say("connection refused")
    shard = await world.start("a", "head", http=True)
    await world.until(lambda: world.program("a").runs and world.program("a", "head").runs)
    world.program("a", "head").exit(4)
    await world.reach(shard, State.FAILED)
    assert end(shard) == ("failed", "sidecar head exited 4 before the engine was up", 143, "SIGTERM")


async def test_a_sidecar_that_ends_while_the_leader_is_waited_for_fails_the_shard(world: FakeWorld) -> None:
    world.probes.listening.say(False)
    shard = await world.start(
        "a", "head", waits_for_leader=True, leader_address="127.0.0.1", leader_port=6379
    )
    await world.until(lambda: world.program("a", "head").runs)
    world.program("a", "head").exit(0)
    await world.reach(shard, State.FAILED)
    assert end(shard) == ("failed", "sidecar head exited 0 before the engine was up", -1, "")
    assert world.program("a").runs == 0


@pytest.mark.parametrize("drained", [False, True])
async def test_a_sidecar_that_ends_later_is_told_and_changes_nothing_else(
    world: FakeWorld, drained: bool
) -> None:
    shard = await world.run("a", "head")
    if drained:
        await world.node.drain("a")
    state = shard.record.state
    world.cgroups.count_oom_kills(world.group(), 1)
    world.program("a", "head").exit(4)
    await world.until(lambda: shard.record.reason == "sidecar head exited 4")
    await world.settle(shard)
    assert (shard.record.state, is_alive(shard.pid), shard.record.oom_kills) == (state, True, 1)


@pytest.mark.parametrize("state", ["stopping", "aborting", "stopped", "failed"])
async def test_late_news_changes_nothing(world: FakeWorld, state: str) -> None:
    world.program("a", before=IGNORES_TERM)
    shard = await world.run("a", "head")
    held = world.scopes.hold("stop")
    if state in {"stopping", "stopped"}:
        await world.stop(limit_s=1)
        os.kill(shard.pid, signal.SIGKILL)
    else:
        world.program("a").exit(1)
    await held.arrived()
    await world.settle(shard)
    if state in {"stopped", "failed"}:
        held.released.set()
        await world.reach(shard, State(state))
    before, told = shard.record, len(world.story.told)
    for fact in Fact:
        if fact is not Fact.SCOPE_EMPTY:
            shard.tell(fact, "late")
    if state in {"stopping", "aborting"}:
        await world.settle(shard)
    assert (shard.record, before.phase, len(world.story.told)) == (before, Phase(state), told)
    held.released.set()


async def test_what_cannot_have_happened_changes_nothing_and_is_logged(
    world: FakeWorld, caplog: pytest.LogCaptureFixture
) -> None:
    shard = await world.run()
    before = shard.record
    shard.tell(Fact.SCOPE_EMPTY, "nonsense")
    await world.settle(shard)
    assert (shard.record, is_alive(shard.pid)) == (before, True)
    (entry,) = (record for record in caplog.records if record.levelname == "ERROR")
    assert entry.message == "shard a: a fault of llmgwd, nothing was changed by it"
    await world.stop()
    await world.reach(shard, State.STOPPED)


async def test_an_activity_that_fails_unexpectedly_is_begun_again(
    world: FakeWorld, caplog: pytest.LogCaptureFixture
) -> None:
    world.launcher.refusals["engine"] = RuntimeError("a fault of ours")
    await world.run()
    assert "shard a: start-scope failed and is begun again" in [record.message for record in caplog.records]


async def test_a_listener_that_fails_costs_no_engine_its_keeper(
    world: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(shard: Shard, before: State | None) -> None:
        raise ValueError("D-Bus carries no NUL in a text")

    shard = await world.run("a", http=True)
    monkeypatch.setattr(world.story, "changed", fail)
    world.probes.obstacles.say("busy")
    await world.until(lambda: shard.health == "failing")
    world.program("a").exit(3)
    await world.until(lambda: shard.record.state is State.FAILED)
    assert end(shard) == ("failed", "engine exited 3", 3, "")


async def test_every_change_of_state_is_written_before_it_is_told(world: FakeWorld) -> None:
    shard = await world.run()
    await world.stop()
    await world.reach(shard, State.STOPPED)
    written = [content["state"] for content in world.records.written]
    assert list(dict.fromkeys(written)) == ["pending", "starting", "loading", "ready", "draining", "stopped"]
    assert from_json(world.records.written[-1]) == shard.record


async def test_a_stop_is_told_when_it_is_written(world: FakeWorld) -> None:
    shard = await world.run()
    held = world.records.hold(lambda content: content["state"] == "draining")
    stop = asyncio.create_task(world.stop())
    await held.arrived()
    await asyncio.sleep(0.01)
    assert (stop.done(), world.story.states("a")[-1], world.scopes.called("stop")) == (False, "ready", 0)
    held.released.set()
    await stop
    await world.reach(shard, State.STOPPED)


async def test_a_full_disk_disturbs_no_engine(world: FakeWorld, caplog: pytest.LogCaptureFixture) -> None:
    shard = await world.run()
    world.records.is_full = lambda content: True
    await world.node.drain("a")
    assert (shard.record.state, is_alive(shard.pid)) == (State.DRAINING, True)
    assert [record.message for record in caplog.records if record.levelname == "WARNING"] == [
        "shard a: its record could not be written: [Errno 28] No space left on device"
    ]
    world.records.is_full = lambda content: False
    await world.stop()
    await world.reach(shard, State.STOPPED)
    assert from_json(world.records.written[-1]) == shard.record


async def test_what_an_ended_phase_had_still_to_say_is_no_reason_of_the_next(world: FakeWorld) -> None:
    world.probes.obstacles.say("connection refused")
    shard = await world.start("a", http=True)
    await world.until(lambda: world.program("a").runs)
    held = world.records.hold(lambda content: content["phase"] == "aborting")
    world.program("a").exit(2)
    await held.arrived()
    asked = len(world.probes.asked)
    await asyncio.sleep(0.01)
    held.released.set()
    await world.reach(shard, State.FAILED)
    assert (end(shard), len(world.probes.asked)) == (("failed", "engine exited 2", 2, ""), asked)


async def test_an_order_that_meets_the_end_is_answered(world: FakeWorld) -> None:
    shard = await world.run()
    held = world.records.hold(lambda content: content["phase"] == "failed")
    world.program("a").exit(1)
    await held.arrived()
    shard.tell(Fact.DRAIN_ASKED)
    late = [asyncio.create_task(world.node.drain("a")), asyncio.create_task(world.stop())]
    await asyncio.sleep(0.01)
    held.released.set()
    async with asyncio.timeout(5):
        answers = await asyncio.gather(*late, return_exceptions=True)
    assert [type(answer) for answer in answers] == [WrongState, type(None)]
    await world.reach(shard, State.FAILED)


async def test_a_drain_that_is_behind_the_end_in_the_queue_is_answered(world: FakeWorld) -> None:
    shard = await world.run("a", "head")
    held = world.scopes.hold("stop")
    world.program("a").exit(1)
    await held.arrived()
    slow = world.records.hold(lambda content: content["reason"] == "noted")
    shard.note(keep=True, reason="noted")
    await slow.arrived()
    held.released.set()
    await world.until(lambda: [news.fact for news in shard.inbox._queue][-1:] == [Fact.SCOPE_EMPTY])  # type: ignore[attr-defined]
    late = asyncio.create_task(world.node.drain("a"))
    await asyncio.sleep(0.01)
    slow.released.set()
    async with asyncio.timeout(5):
        await late
    await world.until(lambda: shard.record.state is State.FAILED)


async def test_a_drain_during_the_start_is_written(world: FakeWorld) -> None:
    held = world.scopes.hold("start")
    await world.start()
    await held.arrived()
    await world.node.drain("a")
    assert world.records.written[-1]["phase"] == "drained-gated"
    shard = await world.restart()
    await world.until(lambda: shard.record.phase is Phase.DRAINED and world.program("a").runs)


async def test_an_end_during_a_lost_bus_is_told_when_it_is_back(world: FakeWorld) -> None:
    shard = await world.run()
    world.scopes.reachable.clear()
    world.scopes.fail("find", BusLost("lost"))
    world.program("a").exit(1)
    await world.reach(shard, State.READY)
    await world.until(lambda: shard.record.phase is Phase.ABORTING)
    world.scopes.reachable.set()
    await world.reach(shard, State.FAILED)


async def test_an_ended_gate_is_reaped_and_let_go(world: FakeWorld) -> None:
    before = set(os.listdir("/proc/self/fd"))
    shard = await world.run("a", "head")
    pids = [pid.pid for pid in shard.record.pids.values()]
    world.program("a", "head").exit(0)
    await world.until(lambda: not os.path.exists(f"/proc/{pids[0]}"))
    await world.stop()
    await world.reach(shard, State.STOPPED)
    await world.node.close()
    assert [pid for pid in pids if os.path.exists(f"/proc/{pid}")] == []
    assert len(set(os.listdir("/proc/self/fd")) - before) == 2  # the orders of the two programs
