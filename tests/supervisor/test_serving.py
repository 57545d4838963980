"""From a running engine to one that serves, and while it does."""

import asyncio
import logging
import time
from types import SimpleNamespace

import pytest

from llmgwd.engines.plan import Http
from llmgwd.model.lifecycle import Phase, State
from llmgwd.supervisor import serving
from llmgwd.supervisor.ports import Timing
from llmgwd.supervisor.shard import Shard
from tests.fakes.world import FakeWorld

HTTP = Http("http://127.0.0.1:8100", "/health", "tiny")


async def loading(world: FakeWorld, **more: object) -> Shard:
    """A shard whose engine runs and does not answer."""
    world.probes.obstacles.say("127.0.0.1:8100: connection refused")
    shard = await world.start("a", http=True, model="tiny", **more)
    await world.until(lambda: world.program("a").runs and world.probes.asked)
    return shard


async def test_what_the_engine_answers_is_the_reason_until_it_serves(world: FakeWorld) -> None:
    world.probes.obstacles.say("connection refused", "answers 503: Loading model", "answers 503: 40 %", "")
    shard = await world.start("a", http=True, model="tiny")
    await world.reach(shard, State.READY)
    reasons = list(dict.fromkeys(record.reason for record in world.story.seen))
    assert reasons[1:] == [
        "the engine was started",
        "connection refused",
        "answers 503: Loading model",
        "answers 503: 40 %",
        "serves tiny",
    ]
    assert (shard.health, shard.record.ready_us >= shard.record.started_us > 0) == ("ok", True)


async def test_the_engine_is_asked_as_its_spec_says(world: FakeWorld) -> None:
    await world.run("a", http=True, model="tiny", verify_listener=False)
    assert set(world.probes.asked) == {(HTTP, world.group(), False)}


async def test_an_engine_that_names_no_model_just_serves(world: FakeWorld) -> None:
    shard = await world.run("a", http=True)
    assert (shard.record.reason, world.probes.asked[0][0].served_model) == ("serves", "")


async def test_an_engine_that_does_not_answer_in_time_fails_with_what_it_said_last(world: FakeWorld) -> None:
    shard = await loading(world, ready_timeout_s=0.05)
    await world.reach(shard, State.FAILED)
    assert shard.record.reason == "not ready in 0.05 s: 127.0.0.1:8100: connection refused"
    assert (shard.record.ready_us, shard.record.exit_signal) == (0, "SIGTERM")


async def test_a_timeout_of_zero_is_none(world: FakeWorld) -> None:
    shard = await loading(world, ready_timeout_s=0)
    assert (shard.record.state, shard.record.ready_until) == (State.LOADING, 0)


async def test_an_engine_without_http_is_ready_when_it_has_stayed_alive(world: FakeWorld) -> None:
    world.world.timing = Timing(health_interval_s=0.001, alive_grace_s=0.05)
    shard = await world.run()
    assert world.story.states("a") == ["starting", "loading", "ready"]
    assert shard.record.ready_us - shard.record.started_us >= 50_000
    assert (shard.record.reason, shard.health, world.probes.asked) == ("", "unknown", [])


async def test_an_engine_without_http_that_does_not_stay_alive_is_never_ready(world: FakeWorld) -> None:
    world.world.timing = Timing(health_interval_s=0.001, alive_grace_s=60)
    world.program("a").exit(0)
    shard = await world.start()
    await world.reach(shard, State.FAILED)
    assert world.story.states("a") == ["starting", "loading", "failed"]
    assert (shard.record.reason, shard.record.exit_code) == ("engine exited 0", 0)


async def test_an_engine_that_ends_while_it_loads_fails_at_once(world: FakeWorld) -> None:
    shard = await loading(world)
    world.program("a").exit(2)
    await world.reach(shard, State.FAILED)
    assert (shard.record.reason, shard.record.exit_code, shard.health) == ("engine exited 2", 2, "unknown")


async def test_a_stop_ends_a_load_at_once(world: FakeWorld) -> None:
    shard = await loading(world)
    await world.stop()
    await world.reach(shard, State.STOPPED)
    asked = len(world.probes.asked)
    await asyncio.sleep(0.01)
    assert (len(world.probes.asked), world.story.states("a")[-2:]) == (asked, ["draining", "stopped"])


async def test_the_pid_is_the_programs_own(world: FakeWorld) -> None:
    shard = await world.run()
    assert {shard.pid} == world.scopes.pids(shard.record.unit) - {shard.record.pids["engine"].pid}


async def test_health_fails_at_the_third_miss_and_comes_back(
    world: FakeWorld, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    shard = await world.run("a", http=True)
    world.probes.obstacles.say("busy", "busy", "")
    given = world.probes.obstacles.given
    await world.until(lambda: world.probes.obstacles.given >= given + 4)
    assert (shard.health, shard.record.reason, caplog.records) == ("ok", "serves", [])
    world.probes.obstacles.say("busy")
    await world.until(lambda: shard.health == "failing")
    assert (shard.record.state, shard.record.reason) == (State.READY, "did not answer 3 times: busy")
    world.probes.obstacles.say("")
    await world.until(lambda: shard.health == "ok")
    assert (shard.record.state, shard.record.reason) == (State.READY, "serves")
    assert [record.getMessage() for record in caplog.records] == [
        "shard a: did not answer 3 times: busy",
        "shard a: answers again",
    ]


async def test_a_drain_of_an_engine_that_fails_keeps_its_reason_when_it_answers_again(
    world: FakeWorld,
) -> None:
    shard = await world.run("a", http=True)
    world.probes.obstacles.say("busy")
    await world.until(lambda: shard.health == "failing")
    await world.node.drain("a")
    world.probes.obstacles.say("")
    await world.until(lambda: shard.health == "ok")
    assert shard.record.reason == "drained"


async def test_the_time_that_a_probe_took_is_known(world: FakeWorld) -> None:
    shard = await world.run("a", http=True)
    assert shard.probe_s > 0


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("answers 503: a\0b", "answers 503: a�b"),
        ("answers 503: half \ud800", "answers 503: half �"),
        ("answers 503: \x1b[2J", "answers 503: �[2J"),
        ("answers 503: " + "x" * 2000, "answers 503: " + "x" * 487),
    ],
    ids=["nul", "surrogate", "escape", "long"],
)
async def test_what_an_engine_says_is_harmless(world: FakeWorld, said: str, shown: str) -> None:
    world.probes.obstacles.say(said)
    shard = await world.start("a", http=True)
    await world.until(lambda: shard.record.reason == shown)


async def test_a_drained_shard_is_never_ready(world: FakeWorld) -> None:
    shard = await loading(world)
    await world.node.drain("a")
    world.probes.obstacles.say("")
    await world.until(lambda: shard.record.phase == "drained")
    assert world.story.states("a") == ["starting", "loading", "draining"]


async def test_a_drain_of_a_ready_shard_keeps_its_engine_and_its_health(world: FakeWorld) -> None:
    shard = await world.run("a", http=True)
    await world.node.drain("a")
    await world.node.drain("a")
    assert (shard.record.state, shard.record.reason, shard.health) == (State.DRAINING, "drained", "ok")
    world.probes.obstacles.say("gone")
    await world.until(lambda: shard.health == "failing")
    assert world.program("a").runs == 1


async def test_a_stop_with_time_to_drain_waits_until_nobody_is_connected_twice(world: FakeWorld) -> None:
    shard = await world.run("a", http=True)
    world.probes.established.say(2, 1, 0, 1, 0, 0)
    await world.stop(drain_s=60)
    assert (shard.record.state, shard.record.reason) == (State.DRAINING, "finishing requests")
    await world.reach(shard, State.STOPPED)
    assert (world.probes.established.given, shard.record.reason) == (6, "stopped")


async def test_requests_that_do_not_end_have_the_time_that_was_given(
    world: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    def in_seconds(ahead_s: float) -> None:
        later = SimpleNamespace(monotonic=lambda: time.monotonic() + ahead_s)
        monkeypatch.setattr(serving, "time", later)

    shard = await world.run("a", http=True)
    world.probes.established.say(1)
    await world.stop(drain_s=60)
    in_seconds(59)
    given = world.probes.established.given
    await world.until(lambda: world.probes.established.given >= given + 3)
    assert shard.record.phase is Phase.FINISHING
    in_seconds(61)
    await world.reach(shard, State.STOPPED)


async def test_the_limit_counts_from_the_end_of_the_drain(world: FakeWorld) -> None:
    shard = await world.run("a", http=True)
    world.probes.established.say(0)
    await world.stop(drain_s=60, limit_s=10)
    await world.reach(shard, State.STOPPED)
    assert shard.record.stop_limit_s == 10


async def test_the_time_to_drain_is_no_part_of_the_limit(world: FakeWorld) -> None:
    shard = await world.run("a", http=True)
    world.probes.established.say(1)
    await world.stop(drain_s=60, limit_s=10)
    assert shard.record.stop_until == 0
    await world.stop()
    assert shard.record.stop_limit_s == 10
    await world.reach(shard, State.STOPPED)


async def test_a_repeated_stop_does_not_prolong_the_drain(world: FakeWorld) -> None:
    shard = await world.run("a", http=True)
    world.probes.established.say(1)
    await world.stop(drain_s=60, limit_s=10)
    before = shard.record
    await world.stop(drain_s=90, limit_s=20)
    await world.settle(shard)
    assert shard.record == before
    await world.stop(drain_s=0.01, limit_s=5)
    await world.reach(shard, State.STOPPED)
    assert shard.record.stop_limit_s == 5


async def test_an_engine_that_ends_while_it_drains_is_stopped(world: FakeWorld) -> None:
    shard = await world.run("a", http=True)
    await world.node.drain("a")
    world.program("a").exit(5)
    await world.reach(shard, State.STOPPED)
    assert (shard.record.reason, shard.record.exit_code) == ("engine exited 5", 5)


async def test_nothing_to_finish_is_waited_for_where_nothing_is_served(world: FakeWorld) -> None:
    shard = await world.run()
    await world.stop(drain_s=60)
    await world.reach(shard, State.STOPPED)
    assert world.probes.established.given == 0
