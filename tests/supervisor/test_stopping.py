"""The end of a shard: who is asked, in which order, how long, and when it is told."""

import asyncio
import time
from types import SimpleNamespace

import pytest

from llmgwd.bus.connection import BusLost, CallTimedOut
from llmgwd.host import process
from llmgwd.model.errors import ResourceBusy, Unkillable
from llmgwd.model.lifecycle import State
from llmgwd.supervisor import keeper, node, stopping
from llmgwd.supervisor.shard import Shard
from tests.fakes.program import COUNTS_TERM, IGNORES_TERM, LEAVES_A_CHILD, is_alive, stranger
from tests.fakes.world import FakeWorld, unit


def outcome(shard: Shard) -> tuple[str, str, int, str]:
    record = shard.record
    return record.state, record.reason, record.exit_code, record.exit_signal


async def test_a_stop_ends_the_engine_and_says_how(world: FakeWorld) -> None:
    shard = await world.run()
    await world.stop()
    assert (shard.record.state, shard.record.reason) == (State.DRAINING, "stopping")
    await world.reach(shard, State.STOPPED)
    assert outcome(shard) == ("stopped", "stopped", 143, "SIGTERM")
    assert (shard.pid, world.scopes.called("stop"), world.scopes.called("kill")) == (0, 1, 0)
    assert world.story.told[-3:] == [
        ("changed", "a", "ready", "draining", "stopping"),
        ("changed", "a", "draining", "stopped", "stopped"),
        ("ended", "a", "stopped"),
    ]


async def test_terminal_is_told_only_when_the_scope_is_empty(world: FakeWorld) -> None:
    world.program("a", before=LEAVES_A_CHILD)
    shard = await world.run()
    gate, engine = shard.record.pids["engine"].pid, shard.pid
    (child,) = world.scopes.pids(unit()) - {gate, engine}
    held = world.scopes.hold("stop")
    world.program("a").exit(3)
    await held.arrived()
    await world.settle(shard)
    assert (is_alive(gate), is_alive(child)) == (False, True)
    assert (shard.record.state, shard.record.reason) == (State.READY, "engine exited 3")
    held.released.set()
    await world.reach(shard, State.FAILED)
    assert (outcome(shard), is_alive(child)) == (("failed", "engine exited 3", 3, ""), False)


async def test_a_stop_ends_children_that_their_parent_has_left(world: FakeWorld) -> None:
    world.program("a", before=f"{IGNORES_TERM}; (sleep 1000 &)")
    shard = await world.run()
    pids = world.scopes.pids(unit())
    await world.stop(limit_s=0)
    await world.reach(shard, State.STOPPED)
    assert [pid for pid in pids if is_alive(pid)] == []


async def test_what_ignores_the_request_is_killed_at_the_limit(world: FakeWorld) -> None:
    world.program("a", before=IGNORES_TERM)
    shard = await world.run()
    await world.stop(limit_s=0.02)
    await world.reach(shard, State.STOPPED)
    assert outcome(shard) == ("stopped", "did not stop in 0.02 s, killed", 137, "SIGKILL")
    assert [call for call, _ in world.scopes.calls if call in {"stop", "kill"}] == ["stop", "kill"]


async def test_what_systemd_kills_at_its_own_limit_is_said_to_be_killed(world: FakeWorld) -> None:
    world.program("a", before=IGNORES_TERM)
    shard = await world.run()
    await world.stop()
    await world.until(lambda: world.scopes.called("stop"))
    world.scopes.kill_all(unit())
    await world.reach(shard, State.STOPPED)
    assert outcome(shard) == ("stopped", "did not stop in 60 s, killed", 137, "SIGKILL")


async def test_a_second_stop_with_a_shorter_limit_takes_over(world: FakeWorld) -> None:
    world.program("a", before=IGNORES_TERM)
    shard = await world.run()
    await world.stop()
    await world.until(lambda: world.scopes.called("stop"))
    await world.stop(limit_s=0)
    await world.reach(shard, State.STOPPED)
    assert shard.record.reason == "did not stop in 0 s, killed"
    assert world.records.written[-2]["stop_limit_s"] == 0


async def test_a_second_stop_with_a_longer_limit_changes_nothing(world: FakeWorld) -> None:
    world.program("a", before=IGNORES_TERM)
    shard = await world.run()
    await world.stop(limit_s=30)
    before = shard.record
    await world.stop(limit_s=60)
    await world.settle(shard)
    assert shard.record == before


@pytest.mark.parametrize(("first_s", "second_s"), [(60, 0), (0, 60)])
async def test_of_two_stops_at_once_the_shorter_limit_counts(
    world: FakeWorld, first_s: float, second_s: float
) -> None:
    world.program("a", before=IGNORES_TERM)
    shard = await world.run()
    await asyncio.gather(world.stop(limit_s=first_s), world.stop(limit_s=second_s))
    await world.reach(shard, State.STOPPED)
    assert shard.record.reason == "did not stop in 0 s, killed"


async def test_a_shorter_limit_hastens_what_is_left_of_an_engine_that_failed(world: FakeWorld) -> None:
    world.program("a", before=f"{IGNORES_TERM}; {LEAVES_A_CHILD}")
    shard = await world.run()
    world.scopes.pids(unit())
    world.program("a").exit(1)
    await world.until(lambda: world.scopes.called("stop"))
    await world.stop(limit_s=0)
    await world.reach(shard, State.FAILED)
    assert outcome(shard) == ("failed", "engine exited 1", 1, "SIGKILL")


async def test_stop_with_sidecars_asks_the_engine_first(world: FakeWorld) -> None:
    shard = await world.run("a", "head")
    head = shard.record.pids["head"].pid
    held = world.scopes.hold("stop")
    await world.stop()
    await held.arrived()
    assert (world.exit_file(), is_alive(head)) == ("143", True)
    held.released.set()
    await world.reach(shard, State.STOPPED)
    assert (outcome(shard), world.exit_file("a", "head")) == (("stopped", "stopped", 143, "SIGTERM"), "143")


async def test_an_engine_that_is_asked_first_has_half_of_the_limit(
    world: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    def in_seconds(ahead_s: float) -> None:
        later = SimpleNamespace(monotonic=lambda: time.monotonic() + ahead_s)
        monkeypatch.setattr(stopping, "time", later)
        shard.limit_changed.set()

    world.program("a", before=COUNTS_TERM)
    shard = await world.run("a", "head")
    await world.stop(limit_s=60)
    await world.until(lambda: world.program("a").terms)
    in_seconds(29)
    await world.settle(shard)
    assert (world.scopes.called("stop"), is_alive(shard.record.pids["head"].pid)) == (0, True)
    in_seconds(31)
    await world.until(lambda: not is_alive(shard.record.pids["head"].pid))
    assert (world.scopes.called("kill"), is_alive(shard.pid)) == (0, True)
    in_seconds(61)
    await world.reach(shard, State.STOPPED)
    assert outcome(shard) == ("stopped", "did not stop in 60 s, killed", 137, "SIGKILL")


async def test_a_shorter_limit_also_shortens_the_half_of_the_engine(world: FakeWorld) -> None:
    world.program("a", before=IGNORES_TERM)
    shard = await world.run("a", "head")
    await world.stop()
    await world.until(lambda: shard.record.terminated)
    await world.stop(limit_s=0)
    await world.reach(shard, State.STOPPED)
    assert world.scopes.called("stop") == 1


async def test_an_engine_is_not_asked_twice_by_a_daemon_that_comes_back(world: FakeWorld) -> None:
    world.program("a", before=COUNTS_TERM)
    shard = await world.run("a", "head")
    await world.stop()
    await world.until(lambda: world.program("a").terms)
    await world.settle(shard)
    shard = await world.restart()
    await world.until(lambda: world.scopes.called("is_stopped_by_others") == 2)
    await world.settle(shard)
    assert (world.program("a").terms, world.scopes.called("stop")) == (1, 0)
    world.program("a").exit(0)
    await world.reach(shard, State.STOPPED)
    assert outcome(shard) == ("stopped", "stopped", 0, "")


async def test_an_engine_alone_is_asked_by_systemd(world: FakeWorld) -> None:
    world.program("a", before=COUNTS_TERM)
    shard = await world.run()
    await world.stop()
    await world.until(lambda: world.program("a").terms)
    world.program("a").exit(7)
    await world.reach(shard, State.STOPPED)
    assert (world.program("a").terms, outcome(shard)) == (1, ("stopped", "stopped", 7, ""))


async def test_nothing_is_signalled_before_the_program_has_replaced_its_shell(
    world: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    shard = await world.start("a", http=True)
    world.probes.obstacles.say("connection refused")
    await world.until(lambda: world.program("a").runs)
    with monkeypatch.context() as late:
        late.setattr(process, "leads_session", lambda pid: False)
        await world.stop()
        await world.until(lambda: world.scopes.called("find"))
        await world.settle(shard)
        assert world.scopes.called("stop") == 0
    await world.reach(shard, State.STOPPED)
    assert world.scopes.called("stop") == 1


async def test_a_stop_by_somebody_else_is_a_stop(world: FakeWorld) -> None:
    shard = await world.run()
    world.scopes.stop_by_others(unit())
    await world.reach(shard, State.STOPPED)
    assert outcome(shard) == ("stopped", "stopped by systemd", 143, "SIGTERM")
    assert ("changed", "a", "ready", "draining", "being stopped by systemd") in world.story.told


async def test_a_stop_by_somebody_else_is_one_though_the_end_is_seen_first(world: FakeWorld) -> None:
    shard = await world.run()
    world.scopes.on_foreign_stop = lambda unit: None
    world.scopes.stop_by_others(unit())
    await world.reach(shard, State.STOPPED)
    assert outcome(shard) == ("stopped", "stopped by systemd", 143, "SIGTERM")


@pytest.mark.parametrize("obstacle", ["connection refused", ""], ids=["loading", "ready"])
async def test_a_stop_by_somebody_else_is_one_though_a_sidecar_ends_first(
    world: FakeWorld, caplog: pytest.LogCaptureFixture, obstacle: str
) -> None:
    world.program("a", before=COUNTS_TERM)
    world.probes.obstacles.say(obstacle)
    shard = await world.start("a", "head", http=True)
    await world.until(lambda: world.program("a").runs and world.program("a", "head").runs)
    await world.until(lambda: shard.record.state is (State.LOADING if obstacle else State.READY))
    world.scopes.on_foreign_stop = lambda unit: None
    world.scopes.stop_by_others(unit())
    await world.until(lambda: world.exit_file("a", "head") == "143")
    world.program("a").exit(0)
    await world.reach(shard, State.STOPPED)
    assert (outcome(shard), caplog.records) == (("stopped", "stopped by systemd", 0, ""), [])


async def test_a_shard_that_systemd_stops_is_not_asked_engine_first(world: FakeWorld) -> None:
    world.program("a", before=COUNTS_TERM)
    shard = await world.run("a", "head")
    world.scopes.stop_by_others(unit())
    await world.until(lambda: world.scopes.called("stop"))
    assert not shard.record.terminated
    world.program("a").exit(0)
    await world.reach(shard, State.STOPPED)


@pytest.mark.parametrize("call", ["find", "stop", "kill"])
@pytest.mark.parametrize(
    "error", [BusLost("lost"), CallTimedOut("late")], ids=["bus-lost", "deadline-missed"]
)
async def test_a_lost_bus_during_a_stop_is_no_outcome(world: FakeWorld, call: str, error: Exception) -> None:
    world.program("a", before=IGNORES_TERM)
    shard = await world.run()
    world.scopes.fail(call, error)
    await world.stop(limit_s=0.02)
    await world.reach(shard, State.STOPPED)
    assert outcome(shard) == ("stopped", "did not stop in 0.02 s, killed", 137, "SIGKILL")


async def test_a_lost_bus_during_a_stop_that_knows_no_scope_is_no_outcome(
    world: FakeWorld, caplog: pytest.LogCaptureFixture
) -> None:
    held = world.scopes.hold("start")
    shard = await world.start()
    await held.arrived()
    for _ in range(2):
        world.scopes.fail("find", BusLost("lost"))
    await world.stop()
    await world.reach(shard, State.STOPPED)
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []


async def test_a_stop_goes_on_while_the_bus_is_away(world: FakeWorld) -> None:
    shard = await world.run()
    world.scopes.reachable.clear()
    world.scopes.fail("find", BusLost("lost"))
    await world.stop()
    await world.settle(shard)
    assert (shard.record.state, world.scopes.called("stop")) == (State.DRAINING, 0)
    world.scopes.reachable.set()
    await world.reach(shard, State.STOPPED)


async def test_a_scope_of_another_run_is_never_touched(
    world: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node, "_SETTLE_S", 0.01)
    shard = await world.run()
    pid = stranger()
    await world.die()
    world.scopes.kill_all(unit())
    await world.until(lambda: not world.scopes.exists(unit()))
    world.scopes.put(unit(), pid, invocation_id="f" * 32)
    shard = await world.come_back()
    await world.node.stop("a", drain_s=0, limit_s=0)
    await world.settle(shard)
    assert is_alive(pid)
    assert {call for call, _ in world.scopes.calls} & {"stop", "kill"} == set()


async def test_unkillable_is_said_after_five_seconds_and_resolves(
    world: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert stopping._UNKILLABLE_S == 5
    monkeypatch.setattr(stopping, "_UNKILLABLE_S", 0.01)
    shard = await world.run("a", port=8100)
    left = ", ".join(f"pid {pid} (S)" for pid in sorted(world.scopes.pids(unit())))
    world.scopes.immortal = True
    await world.stop(limit_s=0)
    await world.until(lambda: shard.unkillable)
    assert outcome(shard) == ("draining", f"unkillable: {left}", -1, "")
    for refused in (world.stop(), world.node.remove("a")):
        with pytest.raises(Unkillable) as refusal:
            await refused
        assert refusal.value.text == f"shard a outlived SIGKILL: {left}"
    with pytest.raises(ResourceBusy):
        await world.start("b", port=8100)
    world.scopes.immortal = False
    world.scopes.kill_all(unit())
    await world.reach(shard, State.STOPPED)
    assert outcome(shard) == ("stopped", "did not stop in 0 s, killed", 137, "SIGKILL")
    await world.node.remove("a")


async def test_an_end_that_was_unkillable_for_a_while_keeps_its_reason(
    world: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stopping, "_UNKILLABLE_S", 0.01)
    monkeypatch.setattr(keeper, "_ABORT_S", 0)
    world.program("a", before=LEAVES_A_CHILD)
    shard = await world.run()
    world.scopes.pids(unit())
    world.scopes.immortal = True
    world.program("a").exit(3)
    await world.until(lambda: shard.unkillable)
    assert shard.record.reason.startswith("unkillable: pid ")
    world.scopes.immortal = False
    world.scopes.kill_all(unit())
    await world.reach(shard, State.FAILED)
    assert outcome(shard) == ("failed", "engine exited 3", 3, "SIGKILL")


async def test_a_drained_shard_that_is_killed_from_outside_did_not_miss_a_limit(world: FakeWorld) -> None:
    shard = await world.run()
    await world.node.drain("a")
    world.scopes.kill_all(unit())
    await world.reach(shard, State.STOPPED)
    assert outcome(shard) == ("stopped", "engine was killed by SIGKILL", 137, "SIGKILL")


async def test_a_stop_of_a_stopped_shard_does_nothing(world: FakeWorld) -> None:
    shard = await world.run()
    await world.stop()
    await world.reach(shard, State.STOPPED)
    before = shard.record
    await world.stop(limit_s=0)
    assert (shard.record, shard.inbox.empty()) == (before, True)
