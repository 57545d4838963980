"""What the daemon says of its shards, last words included."""

import logging
import os

import pytest

from llmgwd.host.identity import Identity
from llmgwd.host.journal import JournalUnavailable
from llmgwd.host.journal_reader import Selection
from llmgwd.host.journal_text import Line
from llmgwd.model.errors import LimitExceeded, NoSuchShard
from llmgwd.model.lifecycle import State
from tests.fakes.world import FakeWorld, unit


def said(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [(record.levelname, record.getMessage()) for record in caplog.records]


async def test_every_change_of_state_is_one_line(world: FakeWorld, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    shard = await world.run("a", replica_id="r")
    await world.stop()
    await world.reach(shard, State.STOPPED)
    assert said(caplog) == [
        ("INFO", "shard a: accepted"),
        ("INFO", "shard a: pending -> starting: held at the gate"),
        ("INFO", "shard a: starting -> loading: the engine was started"),
        ("INFO", "shard a: loading -> ready"),
        ("INFO", "shard a: ready -> draining: stopping"),
        ("INFO", "shard a: draining -> stopped: stopped"),
    ]
    assert {(vars(record)["LLMGW_SHARD"], vars(record)["LLMGW_REPLICA"]) for record in caplog.records} == {
        ("a", "r")
    }
    assert [vars(record)["LLMGW_STATE"] for record in caplog.records] == [
        "pending", "starting", "loading", "ready", "draining", "stopped",
    ]  # fmt: skip


async def test_a_failure_is_one_entry_with_the_last_words(
    world: FakeWorld, caplog: pytest.LogCaptureFixture
) -> None:
    world.logs.lines = [Line("engine", f"line {number}", number) for number in range(20)]
    shard = await world.run()
    world.program("a").exit(3)
    await world.reach(shard, State.FAILED)
    await world.until(lambda: "ERROR" in dict(said(caplog)))
    last = "".join(f"\n  line {number}" for number in range(10, 20))
    assert said(caplog) == [("ERROR", "shard a: ready -> failed: engine exited 3" + last)]


async def test_a_failure_is_told_without_a_journal_too(
    world: FakeWorld, caplog: pytest.LogCaptureFixture
) -> None:
    world.logs.error = JournalUnavailable("cannot read journal namespace llmgw: gone")
    shard = await world.run()
    world.program("a").exit(3)
    await world.reach(shard, State.FAILED)
    await world.until(lambda: said(caplog))
    why = "(its output cannot be read: cannot read journal namespace llmgw: gone)"
    assert said(caplog) == [("ERROR", f"shard a: ready -> failed: engine exited 3\n  {why}")]


async def test_a_tail_asks_for_this_run_alone(world: FakeWorld) -> None:
    world.launcher.user = Identity("llmgw", 994, 994, (994,), "/", "/bin/sh")
    shard = await world.run("a", "head")
    world.logs.lines = [Line("head", "up", 1), Line("engine", "serving", 2)]
    assert await world.node.tail("a", 5) == ["[head] up", "[engine] serving"]
    assert world.logs.asked == [
        (
            Selection(
                identifiers={"a/head": "head", "a/engine": "engine"},
                uids=frozenset({0, 994}),
                since_us=shard.record.accepted_us,
                unit=unit(),
            ),
            5,
        )
    ]


async def test_of_a_single_process_the_name_is_left_out(world: FakeWorld) -> None:
    await world.run()
    world.logs.lines = [Line("engine", "serving", 2)]
    assert await world.node.tail("a", 0) == ["serving"]
    assert (world.logs.asked[0][0].uids, world.logs.asked[0][1]) == (frozenset({0, os.geteuid()}), 512)


async def test_a_tail_makes_the_last_words_readable_first(world: FakeWorld) -> None:
    await world.run()
    asked_before: list[int] = []

    def synchronize() -> bool:
        asked_before.append(len(world.logs.asked))
        return True

    world.world.synchronize = synchronize
    await world.node.tail("a", 1)
    assert (asked_before, len(world.logs.asked)) == ([0], 1)


async def test_a_tail_has_a_limit_and_needs_a_shard(world: FakeWorld) -> None:
    await world.run()
    await world.node.tail("a", 20 * 512)
    with pytest.raises(LimitExceeded) as limit:
        await world.node.tail("a", 20 * 512 + 1)
    assert limit.value.text == "at most 10240 lines at once, asked for 10241"
    with pytest.raises(NoSuchShard):
        await world.node.tail("b", 1)
