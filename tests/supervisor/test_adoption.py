"""After a restart of the daemon: what became of each recorded shard."""

import asyncio
import itertools
import os
import signal
import time
from dataclasses import replace

import pytest

from llmgwd.host import process
from llmgwd.model.lifecycle import Phase, State, public
from llmgwd.supervisor import node, watching
from llmgwd.supervisor.adoption import Found, examine
from llmgwd.supervisor.ports import Timing
from llmgwd.supervisor.record import Record, to_json
from tests.fakes.program import COUNTS_TERM, is_alive
from tests.fakes.world import FakeWorld, unit
from tests.supervisor.test_record import simple

P = Phase
BOOT = "this-boot"
GRACE_S = 5.0
# What the engine's exit file says: nothing yet (or its gate was killed), how it ended, that it never ran.
STATUS = RUNS, ENDED, NEVER = "", "37", "closed"
SCOPE = (True, False)  # whether its invocation was known

AGAIN = {
    P.PENDING: P.PENDING, P.GATED: P.PENDING, P.WAITING: P.PENDING, P.LOADING: P.PENDING, P.READY: P.PENDING,
    P.DRAINED_PENDING: P.DRAINED_PENDING, P.DRAINED_GATED: P.DRAINED_PENDING,
    P.DRAINED_WAITING: P.DRAINED_PENDING, P.DRAINED_LOADING: P.DRAINED_PENDING,
    P.DRAINED: P.DRAINED_PENDING, P.FINISHING: P.DRAINED_PENDING,
}  # fmt: skip
# Nothing that is pending has a scope.
GOES_ON = {
    P.GATED: P.LOADING, P.WAITING: P.LOADING, P.LOADING: P.LOADING, P.READY: P.READY,
    P.DRAINED_GATED: P.DRAINED_LOADING, P.DRAINED_WAITING: P.DRAINED_LOADING,
    P.DRAINED_LOADING: P.DRAINED_LOADING, P.DRAINED: P.DRAINED, P.FINISHING: P.FINISHING,
}  # fmt: skip
ENDING = (P.STOPPING, P.ABORTING)
TERMINAL = (P.STOPPED, P.FAILED)


def record(phase: Phase, *, scope: bool = True, boot: str = BOOT) -> Record:
    """As a daemon would have left it; with `scope` it knew the invocation of its scope."""
    return simple(
        phase=phase,
        state=public(phase, State.READY),
        reason="as it was",
        boot_id=boot,
        invocation_id="1" * 32 if scope else "",
        control_group="/llmgw.slice/u.scope" if scope else "",
        started_us=6,
        ready_until=7.0,
    )


def verdict(there: Record, status: str) -> Found:
    return examine(there, boot_id=BOOT, engine_status=status, alive_grace_s=GRACE_S)


@pytest.mark.parametrize("phase", TERMINAL)
def test_what_is_over_stays_as_it_is(phase: Phase) -> None:
    for scope, status, boot in itertools.product(SCOPE, STATUS, (BOOT, "another")):
        there = record(phase, scope=scope, boot=boot)
        assert verdict(there, status) == Found(there, adopted=False)


@pytest.mark.parametrize("phase", [*AGAIN, *ENDING])
def test_a_shard_of_another_boot_has_ended_with_it(phase: Phase) -> None:
    drained = public(phase, State.READY) is State.DRAINING
    for scope, status in itertools.product(SCOPE, STATUS):
        there = record(phase, scope=scope, boot="another")
        expected = replace(
            there,
            phase=P.STOPPED if drained else P.FAILED,
            state=State.STOPPED if drained else State.FAILED,
            reason="host rebooted",
        )
        assert verdict(there, status) == Found(expected, adopted=False)


@pytest.mark.parametrize("phase", ENDING)
def test_an_end_that_was_under_way_goes_on(phase: Phase) -> None:
    for scope, status in itertools.product(SCOPE, STATUS):
        there = record(phase, scope=scope)
        assert verdict(there, status) == Found(there, adopted=True)


@pytest.mark.parametrize("phase", AGAIN)
def test_what_has_run_nothing_starts_again(phase: Phase) -> None:
    for scope, status in ((False, RUNS), (False, ENDED), (False, NEVER), (True, NEVER)):
        there, again = record(phase, scope=scope), AGAIN[phase]
        expected = replace(
            there,
            phase=again,
            state=public(again, State.READY),
            reason="started again by a new llmgwd",
            again=True,
            invocation_id="",
            control_group="",
            pids={},
            started_us=0,
        )
        assert verdict(there, status) == Found(expected, adopted=False)


@pytest.mark.parametrize("phase", GOES_ON)
def test_what_has_run_goes_on_or_is_found_to_have_ended(
    phase: Phase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "monotonic", lambda: 100.0)
    there, after = record(phase), GOES_ON[phase]
    expected = there
    if after is not phase:
        state = public(after, State.READY)
        expected = replace(there, phase=after, state=state, ready_until=100.0 + GRACE_S)
    for status in (RUNS, ENDED):
        assert verdict(there, status) == Found(expected, adopted=True)


@pytest.mark.parametrize(
    ("phase", "state"), [(P.WAITING, State.LOADING), (P.DRAINED_WAITING, State.DRAINING)]
)
def test_an_engine_whose_start_was_not_written_has_started_now(phase: Phase, state: State) -> None:
    begun_us = time.time_ns() // 1000
    found = verdict(replace(record(phase), started_us=0), RUNS).record
    assert (found.state, begun_us <= found.started_us <= time.time_ns() // 1000) == (state, True)


async def test_a_restart_is_invisible_to_an_engine(world: FakeWorld) -> None:
    shard = await world.run("a", http=True)
    before, pid, states = shard.record, shard.pid, world.story.states("a")
    for _ in range(3):
        shard = await world.restart()
        await world.until(lambda: world.node.shard("a").pid == pid)
    assert (shard.record, shard.adopted, world.story.states("a")) == (before, True, states)
    assert (world.program("a").runs, world.scopes.made, is_alive(pid)) == (1, 1, True)
    await world.stop()
    await world.reach(shard, State.STOPPED)
    assert (shard.record.reason, shard.record.exit_code) == ("stopped", 143)


async def test_an_adopted_engine_is_watched_like_any_other(world: FakeWorld) -> None:
    await world.run()
    shard = await world.restart()
    world.program("a").exit(37)
    await world.reach(shard, State.FAILED)
    assert (shard.record.reason, shard.record.exit_code) == ("engine exited 37", 37)


@pytest.mark.parametrize(
    ("code", "reason", "signal_name"),
    [
        (0, "ended while llmgwd was away: exited 0", ""),
        (42, "ended while llmgwd was away: exited 42", ""),
        (139, "ended while llmgwd was away: was killed by SIGSEGV", "SIGSEGV"),
    ],
)
async def test_an_engine_that_ended_while_nobody_looked_says_how(
    world: FakeWorld, code: int, reason: str, signal_name: str
) -> None:
    await world.run()
    await world.die()
    world.program("a").exit(code)
    await world.until(lambda: not world.scopes.exists(unit()))
    shard = await world.come_back()
    record = shard.record
    assert (record.state, record.reason, record.exit_code, record.exit_signal) == (
        State.FAILED,
        reason,
        code,
        signal_name,
    )


async def test_an_adoption_returns_when_what_has_ended_is_told(world: FakeWorld) -> None:
    await world.run()
    await world.die()
    world.program("a").exit(1)
    await world.until(lambda: not world.scopes.exists(unit()))
    await world.come_back()
    assert world.story.told[-2:] == [
        ("changed", "a", "ready", "failed", "ended while llmgwd was away: exited 1"),
        ("ended", "a", "failed"),
    ]


async def test_an_engine_that_lost_its_gate_while_nobody_looked_is_stopped(
    world: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "_LOST_GATE_S", 0.01)
    shard = await world.run()
    gate, engine = shard.record.pids["engine"].pid, shard.pid
    await world.die()
    os.kill(gate, signal.SIGKILL)
    await world.until(lambda: process.state(gate) == "X")
    shard = await world.come_back()
    await world.reach(shard, State.FAILED)
    assert (shard.record.reason, shard.record.exit_code, is_alive(engine)) == (
        "ended while llmgwd was away: lost its gate",
        -1,
        False,
    )


async def test_an_end_while_draining_is_a_stop_also_when_nobody_looked(world: FakeWorld) -> None:
    await world.run()
    await world.node.drain("a")
    await world.die()
    world.program("a").exit(3)
    await world.until(lambda: not world.scopes.exists(unit()))
    shard = await world.come_back()
    assert (shard.record.state, shard.record.exit_code) == (State.STOPPED, 3)


async def test_a_stop_goes_on_after_a_restart_and_keeps_its_deadline(world: FakeWorld) -> None:
    world.program("a", before=COUNTS_TERM)
    shard = await world.run("a", "head")
    await world.stop(limit_s=30)
    await world.until(lambda: world.program("a").terms)
    until = shard.record.stop_until
    shard = await world.restart()
    assert (shard.record.state, shard.record.stop_until) == (State.DRAINING, until)
    world.program("a").exit(0)
    await world.reach(shard, State.STOPPED)


async def test_a_load_keeps_its_deadline(world: FakeWorld) -> None:
    world.probes.obstacles.say("connection refused")
    shard = await world.start("a", http=True, ready_timeout_s=600)
    await world.until(lambda: world.program("a").runs and shard.record.ready_until)
    await world.settle(shard)
    until = shard.record.ready_until
    shard = await world.restart()
    assert (shard.record.state, shard.record.ready_until) == (State.LOADING, until)
    world.probes.obstacles.say("")
    await world.reach(shard, State.READY)


async def test_an_engine_that_came_to_serve_while_nobody_looked_is_not_late(world: FakeWorld) -> None:
    world.probes.obstacles.say("connection refused")
    shard = await world.start("a", http=True, ready_timeout_s=0.05)
    await world.until(lambda: world.program("a").runs and shard.record.state is State.LOADING)
    await world.die()
    world.probes.obstacles.say("")
    await asyncio.sleep(0.05)
    shard = await world.come_back()
    await world.reach(shard, State.READY)


async def test_a_drain_of_requests_goes_on_after_a_restart(world: FakeWorld) -> None:
    shard = await world.run("a", http=True)
    world.probes.established.say(1)
    await world.stop(drain_s=60)
    until = shard.record.finish_until
    shard = await world.restart()
    assert (shard.record.phase, shard.record.finish_until) == (Phase.FINISHING, until)
    world.probes.established.say(0)
    await world.reach(shard, State.STOPPED)


async def test_a_start_that_was_cut_off_before_its_scope_starts_again(world: FakeWorld) -> None:
    held = world.scopes.hold("start")
    await world.start()
    await held.arrived()
    shard = await world.restart()
    await world.until(lambda: shard.record.state is State.READY and world.program("a").runs)
    assert (world.program("a").runs, world.scopes.made, shard.record.starts) == (1, 1, 1)


async def test_a_start_that_was_cut_off_in_its_scope_leaves_nothing_and_starts_again(
    world: FakeWorld,
) -> None:
    held = world.records.hold(lambda content: content["phase"] == "waiting")
    await world.start()
    await held.arrived()
    (cut_off,) = world.scopes.pids(unit())
    death = asyncio.create_task(world.die())
    held.released.set()
    await death
    shard = await world.come_back()
    await world.until(lambda: shard.record.state is State.READY and world.program("a").runs)
    assert (is_alive(cut_off), world.program("a").runs, world.scopes.made) == (False, 1, 2)


async def test_a_wait_for_the_leader_starts_again_with_the_time_that_is_left(world: FakeWorld) -> None:
    world.probes.listening.say(False)
    await world.start("a", "head", waits_for_leader=True, leader_address="127.0.0.1", leader_port=6379)
    shard = world.node.shard("a")
    await world.until(lambda: world.program("a", "head").runs and shard.record.leader_until)
    await world.settle(shard)
    until, old = shard.record.leader_until, world.scopes.pids(unit())
    shard = await world.restart()
    await world.until(lambda: world.program("a", "head").runs == 2)
    await world.settle(shard)
    assert (shard.record.leader_until, shard.record.state) == (until, State.STARTING)
    assert [pid for pid in old if is_alive(pid)] == []
    world.probes.listening.say(True)
    await world.reach(shard, State.READY)
    await world.until(lambda: world.program("a").runs == 1)


async def test_a_grace_that_had_begun_is_not_begun_anew(world: FakeWorld) -> None:
    world.world.timing = Timing(health_interval_s=0.001, alive_grace_s=60)
    shard = await world.start()
    await world.until(lambda: world.program("a").runs and shard.record.ready_until)
    await world.settle(shard)
    until = shard.record.ready_until
    shard = await world.restart()
    assert (shard.record.state, shard.record.ready_until) == (State.LOADING, until)


async def test_a_shard_of_another_boot_signals_nobody(world: FakeWorld) -> None:
    shard = await world.run()
    engine = shard.pid
    world.world.boot_id = "another-boot"
    shard = await world.restart()
    assert (shard.record.state, shard.record.reason, shard.record.exit_code) == (
        State.FAILED,
        "host rebooted",
        -1,
    )
    assert is_alive(engine)
    assert {call for call, _ in world.scopes.calls} & {"stop", "kill"} == set()


async def test_a_pid_that_was_used_again_is_not_adopted(
    world: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "_LOST_GATE_S", 0.01)
    shard = await world.run()
    await world.die()
    before = replace(shard.record.pids["engine"], start_time=shard.record.pids["engine"].start_time - 1)
    world.records.write(shard.name, to_json(replace(shard.record, pids={"engine": before})))
    shard = await world.come_back()
    await world.reach(shard, State.FAILED)
    assert shard.record.reason == "ended while llmgwd was away: lost its gate"


async def test_a_process_outside_of_the_scope_is_not_adopted(
    world: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node, "_SETTLE_S", 0.01)
    monkeypatch.setattr(watching, "_LOST_GATE_S", 0.01)
    shard = await world.run()
    monkeypatch.setattr("llmgwd.host.process.control_group", lambda pid: "/elsewhere")
    shard = await world.restart()
    await world.reach(shard, State.FAILED)
    assert shard.record.reason == "ended while llmgwd was away: lost its gate"


async def test_a_terminal_shard_is_remembered_as_it_was(world: FakeWorld) -> None:
    shard = await world.run()
    await world.stop()
    await world.reach(shard, State.STOPPED)
    before, told = shard.record, list(world.story.told)
    shard = await world.restart()
    assert (shard.record, shard.adopted, world.story.told) == (before, False, told)
