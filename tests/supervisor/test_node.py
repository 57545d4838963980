"""All shards of a node: which may be started, which is found by its id, and what is forgotten."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from llmgwd.config import AgentConfig
from llmgwd.host.scope_names import scope_name
from llmgwd.model.errors import (
    Busy,
    EngineUnavailable,
    InvalidSpec,
    LimitExceeded,
    NoSuchOrphan,
    NoSuchShard,
    Refusal,
    ResourceBusy,
    SpecConflict,
    StateNotSaved,
    WrongState,
)
from llmgwd.model.lifecycle import State
from llmgwd.supervisor import node
from llmgwd.supervisor.orphans import Orphan
from llmgwd.supervisor.record import from_json
from llmgwd.supervisor.shard import Shard
from tests.fakes.program import IGNORES_TERM, is_alive, stranger
from tests.fakes.world import FACTS, FakeWorld, unit


async def ended(world: FakeWorld, id: str = "a") -> Shard:
    """A shard that has run and was stopped."""
    shard = await world.run(id)
    await world.stop(id)
    await world.reach(shard, State.STOPPED)
    return shard


def names(world: FakeWorld) -> list[str]:
    return sorted(path.name for path in world.records.folder.iterdir())


async def test_a_start_returns_a_shard_that_is_pending_and_recorded(world: FakeWorld) -> None:
    shard = await world.start()
    assert (shard.record.state, shard.record.reason, shard.record.starts) == (State.PENDING, "accepted", 1)
    assert from_json(world.records.written[0]) == shard.record
    assert (world.node.shard("a"), world.node.shards(), world.node.starts) == (shard, (shard,), 1)


async def test_the_same_start_again_is_the_same_shard(world: FakeWorld) -> None:
    shard = await world.run()
    assert await world.start() is shard
    assert (world.node.starts, world.scopes.made, world.program("a").runs) == (1, 1, 1)


async def test_twenty_starts_of_one_id_make_one_engine(world: FakeWorld) -> None:
    world.program("a")
    shards = await asyncio.gather(*(world.start() for _ in range(20)))
    await world.until(lambda: world.program("a").runs)
    await world.reach(shards[0], State.READY)
    assert len(set(shards)) == 1
    assert (world.launcher.launched, world.scopes.made, world.node.starts) == ([("a", "engine")], 1, 1)


async def test_starts_and_a_removal_of_one_id_at_once_make_one_engine(world: FakeWorld) -> None:
    await ended(world)
    await asyncio.gather(world.start(), world.node.remove("a"), world.start(), return_exceptions=True)
    shard = world.node.shard("a")
    await world.until(lambda: shard.record.state is State.READY)
    assert (len(world.launcher.launched), world.node.starts) == (2, 2)


async def test_another_spec_for_a_live_shard_is_a_conflict(world: FakeWorld) -> None:
    await world.run()
    with pytest.raises(SpecConflict):
        await world.start("a", port=8001)
    assert (world.node.starts, world.scopes.made) == (1, 1)


async def test_a_start_of_a_draining_shard_is_busy(world: FakeWorld) -> None:
    await world.run()
    await world.node.drain("a")
    with pytest.raises(Busy, match="shard a is draining"):
        await world.start()


async def test_a_terminal_shard_is_replaced(world: FakeWorld) -> None:
    first = await ended(world)
    told = len(world.story.told)
    second = await world.run()
    assert (second is not first, second.record.starts, world.node.shards()) == (True, 2, (second,))
    assert world.story.told[told : told + 2] == [("removed", "a", "stopped"), ("added", "a", "pending")]
    assert second.record.invocation_id != first.record.invocation_id


async def test_a_shard_is_replaced_when_its_end_is_written_and_told(world: FakeWorld) -> None:
    await world.run()
    held = world.records.hold(lambda content: content["state"] == "stopped")
    await world.stop()
    await held.arrived()
    start = asyncio.create_task(world.start())
    removal = asyncio.create_task(world.node.remove("a"))
    await asyncio.sleep(0.01)
    assert (start.done(), removal.done()) == (False, False)
    held.released.set()
    shard = await start
    with pytest.raises(WrongState):
        await removal
    kinds = [told[0] for told in world.story.told[-5:]]
    assert kinds == ["changed", "ended", "removed", "added", "changed"]
    await world.until(lambda: shard.record.state is State.READY)
    await world.until(lambda: world.records.written[-1]["state"] == "ready")


async def test_what_is_removed_while_its_end_is_written_stays_removed(world: FakeWorld) -> None:
    await world.run()
    held = world.records.hold(lambda content: content["state"] == "stopped")
    await world.stop()
    await held.arrived()
    removal = asyncio.create_task(world.node.remove("a"))
    await asyncio.sleep(0.01)
    held.released.set()
    await removal
    assert (names(world), world.story.told[-1]) == ([], ("removed", "a", "stopped"))


async def test_a_record_that_cannot_be_written_starts_nothing(world: FakeWorld) -> None:
    world.records.is_full = lambda content: True
    with pytest.raises(StateNotSaved) as refusal:
        await world.start()
    assert refusal.value.text == "shard a was not started: its record: No space left on device"
    assert (world.node.shards(), world.launcher.launched, world.story.told) == ((), [], [])
    world.records.is_full = lambda content: False
    await world.run()


async def test_a_refused_start_leaves_the_shard_of_before(world: FakeWorld) -> None:
    shard = await ended(world)
    world.records.is_full = lambda content: True
    with pytest.raises(StateNotSaved):
        await world.start()
    assert world.node.shard("a") is shard


async def test_what_cannot_run_here_is_refused_before_it_is_recorded(world: FakeWorld) -> None:
    world.launcher.unavailable = EngineUnavailable("/opt/x: no such file")
    with pytest.raises(EngineUnavailable):
        await world.start()
    assert (world.records.written, world.node.starts) == ([], 0)


async def test_a_node_takes_only_so_many_live_shards(world: FakeWorld) -> None:
    world.configure(AgentConfig(max_shards=1))
    shard = await world.run("a")
    with pytest.raises(LimitExceeded) as refusal:
        await world.start("b")
    assert refusal.value.text == "this node takes at most 1 live shards"
    await world.stop("a")
    await world.reach(shard, State.STOPPED)
    await world.run("b")


@pytest.mark.parametrize("claim", [{"port": 8100}, {"gpus": ["0"]}])
async def test_of_two_starts_at_once_one_gets_what_both_claim(
    world: FakeWorld, claim: dict[str, object]
) -> None:
    results = await asyncio.gather(
        world.node.start("a", world.values("a") | claim),
        world.node.start("b", world.values("b") | claim),
        return_exceptions=True,
    )
    assert sorted(type(result).__name__ for result in results) == ["ResourceBusy", "Shard"]


async def test_claims_are_free_when_the_shard_has_ended(world: FakeWorld) -> None:
    shard = await world.run("a", port=8100)
    await world.stop("a")
    with pytest.raises(ResourceBusy):
        await world.start("b", port=8100)
    await world.reach(shard, State.STOPPED)
    await world.run("b", port=8100)


async def test_a_start_that_was_refused_claims_nothing(world: FakeWorld) -> None:
    world.records.is_full = lambda content: True
    with pytest.raises(StateNotSaved):
        await world.start("a", port=8100)
    world.records.is_full = lambda content: False
    await world.run("b", port=8100)


@pytest.mark.parametrize(
    "ask",
    [
        lambda node: node.stop("b", drain_s=None, limit_s=None),
        lambda node: node.drain("b"),
        lambda node: node.remove("b"),
        lambda node: node.tail("b", 1),
    ],
    ids=["stop", "drain", "remove", "tail"],
)
async def test_what_is_not_there_is_refused(
    world: FakeWorld, ask: Callable[[node.Node], Awaitable[object]]
) -> None:
    with pytest.raises(NoSuchShard) as refusal:
        await ask(world.node)
    assert refusal.value.text == "no shard 'b' on this node"


async def test_a_stop_has_the_times_of_the_spec_unless_it_is_given_others(world: FakeWorld) -> None:
    world.program("a", before=IGNORES_TERM)
    shard = await world.run("a", http=True, stop_timeout_s=30, drain_timeout_s=40)
    world.probes.established.say(1)
    await world.node.stop("a", drain_s=None, limit_s=None)
    assert (shard.record.reason, shard.record.stop_limit_s) == ("finishing requests", 30)
    await world.node.stop("a", drain_s=0, limit_s=0)
    await world.reach(shard, State.STOPPED)


async def test_a_longer_limit_than_the_specs_is_refused(world: FakeWorld) -> None:
    shard = await world.run("a", stop_timeout_s=30)
    with pytest.raises(InvalidSpec) as refusal:
        await world.stop("a", limit_s=31)
    assert refusal.value.text == "timeout_seconds: got 31, takes 0 to 30 (the spec's stop_timeout_s)"
    assert shard.record.state is State.READY


async def test_all_are_stopped_at_once_each_within_its_own_limit(world: FakeWorld) -> None:
    shards = [await world.run("a", stop_timeout_s=5), await world.run("b"), await ended(world, "c")]
    await world.node.stop_all(drain_s=0, limit_s=20)
    for shard in shards:
        await world.reach(shard, State.STOPPED)
    assert [shard.record.stop_limit_s for shard in shards] == [5, 20, 60]


async def test_one_that_cannot_be_stopped_keeps_no_other_from_it(world: FakeWorld) -> None:
    first, second = await world.run("a"), await world.run("b")
    first.unkillable = ("pid 1 (D)",)
    with pytest.raises(Refusal, match="Unkillable"):
        await world.node.stop_all(drain_s=0, limit_s=None)
    await world.reach(second, State.STOPPED)


async def test_only_a_live_shard_is_drained_and_only_a_terminal_one_removed(world: FakeWorld) -> None:
    shard = await world.run()
    with pytest.raises(WrongState, match="shard a is ready, only a terminal one can be removed"):
        await world.node.remove("a")
    await world.stop()
    await world.reach(shard, State.STOPPED)
    with pytest.raises(WrongState, match="shard a is stopped, only a live one can be drained"):
        await world.node.drain("a")
    await world.node.remove("a")
    assert (world.node.shards(), names(world)) == ((), [])


async def test_the_oldest_ends_are_forgotten(world: FakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node, "_TERMINAL_KEPT", 2)
    for id in ("d", "c", "b", "a"):
        await ended(world, id)
    await world.until(lambda: len(world.node.shards()) == 2)
    assert [shard.record.id for shard in world.node.shards()] == ["b", "a"]
    monkeypatch.setattr(node, "_TERMINAL_KEPT", 1)
    await world.restart()
    await world.until(lambda: len(world.node.shards()) == 1)
    assert [shard.record.id for shard in world.node.shards()] == ["a"]
    await world.until(lambda: len(names(world)) == 2)
    assert names(world) == ["llmgw-shard-a.exits", "llmgw-shard-a.json"]


async def test_a_shard_that_is_forgotten_while_it_is_started_again_stays(
    world: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ended(world, "a")
    await ended(world, "b")
    monkeypatch.setattr(node, "_TERMINAL_KEPT", 1)
    held = world.records.hold(lambda content: content["id"] == "a")
    start = asyncio.create_task(world.start("a"))
    await held.arrived()
    world.node._prune()
    await asyncio.sleep(0.01)
    held.released.set()
    shard = await start
    await world.until(lambda: shard.record.state is State.READY)
    assert (world.node.shard("a"), "llmgw-shard-a.json" in names(world)) == (shard, True)


async def test_starts_and_ends_are_counted(world: FakeWorld) -> None:
    await ended(world, "a")
    for id, code in (("b", 3), ("c", 139)):
        shard = await world.run(id)
        world.program(id).exit(code)
        await world.reach(shard, State.FAILED)
    await world.run("d")
    assert (world.node.starts, dict(world.node.ends)) == (4, {"stopped": 1, "exited-3": 1, "SIGSEGV": 1})
    assert world.node.counts() == {State.STOPPED: 1, State.FAILED: 2, State.READY: 1}


async def test_a_plan_runs_nothing_and_warns_of_what_a_start_would_refuse(world: FakeWorld) -> None:
    await world.run("b", port=8100)
    world.launcher.unavailable = EngineUnavailable("/opt/x: no such file")
    spec, plan = await world.node.plan("a", world.values("a", "head", port=8100))
    assert (spec.port, [process.name for process in plan.processes]) == (8100, ["head", "engine"])
    assert plan.warnings == (
        "EngineUnavailable: /opt/x: no such file",
        "ResourceBusy: port 8100 is claimed by shard b",
    )
    assert (len(world.node.shards()), world.program("a").runs) == (1, 0)


UNREACHED = (
    "InvalidSpec: nodes: got 2, which needs an address by which the other nodes reach this one, "
    "and it has none: set management_address in [agent] of its configuration"
)
RANK = {
    "engine": "llama-cpp",
    "model": "/m.gguf",
    "nodes": 2,
    "rank": 1,
    "leader_address": "10.0.0.9",
    "leader_port": 8100,
}


def unreached(world: FakeWorld) -> None:
    """From now on the node has no address."""
    world.node._planner.facts = replace(FACTS, management_address="")


async def test_a_plan_warns_of_everything_that_a_start_would_refuse_at_once(world: FakeWorld) -> None:
    await world.run("b", port=8100)
    unreached(world)
    world.launcher.unavailable = EngineUnavailable("/opt/x: no such file")
    _, plan = await world.node.plan("a", RANK)
    assert plan.warnings[-3:] == (
        "EngineUnavailable: /opt/x: no such file",
        UNREACHED,
        "ResourceBusy: port 8100 is claimed by shard b",
    )


async def test_a_rank_that_no_other_node_reaches_is_refused_before_it_is_recorded(world: FakeWorld) -> None:
    unreached(world)
    with pytest.raises(InvalidSpec) as refusal:
        await world.node.start("a", RANK)
    assert (str(refusal.value), world.records.written, world.node.starts) == (UNREACHED, [], 0)


async def test_what_a_plan_warns_of_is_in_the_journal_once(
    world: FakeWorld, caplog: pytest.LogCaptureFixture
) -> None:
    values = world.values("a", nodes=2, rank=0, leader_address="127.0.0.1", leader_port=33_000)
    _, plan = await world.node.plan("a", values)
    assert ([text.partition(":")[0] for text in plan.warnings], caplog.records) == (
        ["leader_address", "leader_port"],
        [],
    )
    await world.node.start("a", values)
    await world.node.start("a", values)
    lines = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert lines == [("WARNING", f"shard a: {warning}") for warning in plan.warnings]
    assert {vars(record)["LLMGW_SHARD"] for record in caplog.records} == {"a"}


async def test_a_plan_of_a_running_shard_does_not_warn_of_itself(world: FakeWorld) -> None:
    await world.run("a", port=8100)
    _, plan = await world.node.plan("a", world.values("a", port=8100))
    assert plan.warnings == ()


async def test_an_orphan_is_listed_and_left_alone_until_somebody_orders_otherwise(world: FakeWorld) -> None:
    pid = stranger()
    scope = world.scopes.put(unit("x/y"), pid)
    await ended(world)
    orphan = Orphan(unit("x/y"), scope.control_group, (pid,), "x/y")
    assert await world.node.orphans() == (orphan,)
    await world.restart()
    assert (await world.node.orphans(), is_alive(pid)) == ((orphan,), True)
    await world.node.kill_orphan(unit("x/y"))
    await world.until(lambda: not is_alive(pid) and not world.scopes.exists(unit("x/y")))
    with pytest.raises(NoSuchOrphan):
        await world.node.kill_orphan(unit("x/y"))


async def test_a_start_under_the_name_of_an_orphan_is_busy(world: FakeWorld) -> None:
    pid = stranger()
    world.scopes.put(unit(), pid)
    await world.node.orphans()
    with pytest.raises(Busy) as refusal:
        await world.start()
    assert refusal.value.text == f"shard a: {unit()} is an orphan; see llmgwctl kill-orphan"
    assert world.launcher.launched == []
    await world.node.kill_orphan(unit())
    await world.until(lambda: not world.scopes.exists(unit()))
    await world.run()


@pytest.mark.parametrize("name", ["llmgwd.service", "init.scope", "llmgw-shard-a.scope"])
async def test_only_an_orphan_is_killed_as_one(world: FakeWorld, name: str) -> None:
    shard = await world.run()
    with pytest.raises(NoSuchOrphan) as refusal:
        await world.node.kill_orphan(name)
    assert refusal.value.text == f"{name} is no orphan of this node"
    assert is_alive(shard.pid)


async def test_a_shard_that_starts_while_orphans_are_looked_for_is_none(world: FakeWorld) -> None:
    held = world.scopes.hold("scopes")
    listing = asyncio.create_task(world.node.orphans())
    await held.arrived()
    await world.run()
    held.released.set()
    assert await listing == ()


async def test_a_record_that_nobody_understands_is_set_aside_and_the_others_are_adopted(
    world: FakeWorld, caplog: pytest.LogCaptureFixture
) -> None:
    await ended(world)
    (world.records.folder / "llmgw-shard-b.json").write_text('{"schema": 99}')
    (world.records.folder / "llmgw-shard-c.json").write_text("{")
    good = (world.records.folder / "llmgw-shard-a.json").read_text()
    (world.records.folder / "llmgw-shard-d.json").write_text(good)
    await world.restart()
    assert [shard.record.id for shard in world.node.shards()] == ["a"]
    kept = [name.rpartition("-")[0] for name in names(world) if "corrupt" in name]
    assert kept == [f"llmgw-shard-{id}.json.corrupt" for id in "bcd"]
    whys = [record.getMessage().rpartition(": ")[2] for record in caplog.records]
    assert whys == [
        "schema 99 is newer than 1",
        "no schema number",
        "it is the record of llmgw-shard-a.scope",
    ]


async def test_a_shard_whose_record_was_lost_is_an_orphan_after_a_restart(world: FakeWorld) -> None:
    shard = await world.run()
    engine = shard.pid
    await world.die()
    (world.records.folder / "llmgw-shard-a.json").write_text("{")
    with pytest.raises(NoSuchShard):
        await world.come_back()
    with pytest.raises(Busy):
        await world.start()
    assert ([orphan.id for orphan in await world.node.orphans()], is_alive(engine)) == (["a"], True)


async def test_a_stop_by_somebody_else_reaches_the_shard_that_it_means(world: FakeWorld) -> None:
    first, second = await world.run("a"), await world.run("b")
    world.scopes.stop_by_others(unit("a"))
    await world.reach(first, State.STOPPED)
    assert (first.record.reason, second.record.state) == ("stopped by systemd", State.READY)


async def test_ids_that_look_alike_are_different_shards(world: FakeWorld) -> None:
    ids = ["llama", "llama-2", "llama_2", "l\u0142ama", "..", "a/b", "%n"]
    values = world.values("a")
    for id in ids:
        await world.node.start(id, values)
    assert [shard.record.id for shard in world.node.shards()] == ids
    assert len({scope_name(id) for id in ids}) == len(ids)
    await world.until(lambda: world.node.counts() == {State.READY: len(ids)})


async def test_a_daemon_that_ends_lets_everything_go_on(world: FakeWorld) -> None:
    first, second = await world.run("a"), await world.run("b", "head")
    pids = [first.pid, second.pid, second.record.pids["head"].pid]
    await world.die()
    assert [pid for pid in pids if not is_alive(pid)] == []
    assert world.scopes.called("stop") == 0


async def test_a_shard_keeps_its_place_in_the_list_after_a_restart(world: FakeWorld) -> None:
    for id in ("b", "a", "c"):
        await world.run(id)
    await world.restart()
    assert [shard.record.id for shard in world.node.shards()] == ["b", "a", "c"]


async def test_an_id_whose_scope_is_another_shards_is_refused(world: FakeWorld) -> None:
    long = "a" * 200
    await world.start(long)
    forged = scope_name(long).removeprefix("llmgw-shard-").removesuffix(".scope").replace("-", "/", 1)
    assert scope_name(forged) == scope_name(long)
    with pytest.raises(InvalidSpec, match=r"^InvalidSpec: id: its scope would be"):
        await world.start(forged)
