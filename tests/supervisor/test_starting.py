"""From a plan to a running engine: gates, their scope, the record, and only then the programs."""

import asyncio
import errno
import os
import signal
from dataclasses import replace
from typing import Any

import pytest

from llmgwd.bus.connection import BusLost, CallTimedOut
from llmgwd.bus.library import Variant
from llmgwd.engines.plan import Plan
from llmgwd.host.process import NoSuchProcess
from llmgwd.host.systemd import ScopeRefused
from llmgwd.model.errors import EngineUnavailable
from llmgwd.model.lifecycle import State
from llmgwd.model.spec import ShardSpec
from llmgwd.supervisor import starting
from llmgwd.supervisor.shard import Shard
from llmgwd.supervisor.starting import scope_properties
from tests.fakes.program import is_alive, stranger
from tests.fakes.world import FakeWorld, unit

LEADER: dict[str, Any] = {"waits_for_leader": True, "leader_address": "127.0.0.1", "leader_port": 6379}
NO_OUTCOME = [
    pytest.param(BusLost("the bus was lost"), id="bus-lost"),
    pytest.param(CallTimedOut("no answer in time"), id="deadline-missed"),
]


async def failed(world: FakeWorld, shard: Shard) -> str:
    """Why; nothing of the engine has run, nothing is left."""
    await world.reach(shard, State.FAILED)
    assert (world.program("a").runs, world.scopes.pids(unit()), world.node.starts) == (0, set(), 1)
    assert not any(is_alive(gate.process.pid) for gate in world.launcher.gates)
    assert (shard.record.exit_code, shard.record.exit_signal, shard.pid) == (-1, "", 0)
    return shard.record.reason


async def test_a_start_tells_each_state_once_and_in_order(world: FakeWorld) -> None:
    await world.run()
    assert world.story.told == [
        ("added", "a", "pending"),
        ("changed", "a", "pending", "starting", "held at the gate"),
        ("changed", "a", "starting", "loading", "the engine was started"),
        ("changed", "a", "loading", "ready", ""),
    ]


async def test_a_running_shard_says_what_it_is_in(world: FakeWorld) -> None:
    shard = await world.run()
    record = shard.record
    assert (record.unit, record.invocation_id, record.control_group) == (unit(), f"{1:032x}", world.group())
    assert record.pids.keys() == {"engine"}
    assert world.scopes.pids(unit()) == {record.pids["engine"].pid, shard.pid}


async def test_a_refused_scope_never_opens_the_gate(world: FakeWorld) -> None:
    world.scopes.fail("start", ScopeRefused("cannot start scope x: no"))
    shard = await world.start()
    assert await failed(world, shard) == "ScopeFailed: cannot start scope x: no"
    assert world.exit_file() == "closed"


async def test_no_gate_opens_before_the_record_tells_of_the_scope(world: FakeWorld) -> None:
    held = world.records.hold(lambda content: content["phase"] == "waiting")
    shard = await world.start()
    await held.arrived()
    await asyncio.sleep(0.01)
    assert (shard.running["engine"].opened, world.program("a").runs) == (False, 0)
    held.released.set()
    await world.reach(shard, State.READY)
    assert world.records.written[-3]["invocation_id"] == shard.record.invocation_id


async def test_a_record_that_cannot_be_written_after_the_scope_started_opens_no_gate(
    world: FakeWorld,
) -> None:
    world.records.is_full = lambda content: content["phase"] == "waiting"
    shard = await world.start()
    assert await failed(world, shard) == "StateNotSaved: the record could not be written"
    assert (shard.record.killed, world.scopes.made) == (False, 1)


async def test_a_full_disk_refuses_what_is_drained_as_well(world: FakeWorld) -> None:
    world.records.is_full = lambda content: content["phase"] == "drained-waiting"
    held = world.scopes.hold("start")
    shard = await world.start()
    await world.node.drain("a")
    held.released.set()
    await world.reach(shard, State.STOPPED)
    assert (shard.record.reason, shard.record.exit_code, world.program("a").runs) == (
        "StateNotSaved: the record could not be written",
        -1,
        0,
    )


@pytest.mark.parametrize("error", NO_OUTCOME)
async def test_a_lost_bus_during_the_start_goes_on_with_the_scope_that_is_there(
    world: FakeWorld, error: Exception
) -> None:
    world.scopes.fail("start", error, afterwards=True)
    shard = await world.run()
    assert (world.launcher.launched, world.scopes.made) == ([("a", "engine")], 1)
    assert shard.record.invocation_id == f"{1:032x}"


@pytest.mark.parametrize("error", NO_OUTCOME)
async def test_a_lost_bus_before_the_scope_was_made_makes_it_with_the_same_gates(
    world: FakeWorld, error: Exception
) -> None:
    world.scopes.fail("start", error)
    await world.run()
    assert (world.launcher.launched, world.scopes.made) == ([("a", "engine")], 1)


@pytest.mark.parametrize("error", NO_OUTCOME)
async def test_a_lost_bus_after_the_scope_was_made_asks_again_for_its_invocation(
    world: FakeWorld, error: Exception
) -> None:
    world.scopes.fail("invocation_id", error)
    shard = await world.run()
    assert (world.launcher.launched, world.scopes.made) == ([("a", "engine")], 1)
    assert shard.record.invocation_id == f"{1:032x}"


async def test_a_start_waits_at_shut_gates_until_the_bus_is_back(world: FakeWorld) -> None:
    world.scopes.reachable.clear()
    world.scopes.fail("start", BusLost("the bus was lost"))
    shard = await world.start()
    await world.until(lambda: world.scopes.called("start"))
    await world.settle(shard)
    assert (shard.record.state, world.scopes.called("start")) == (State.STARTING, 1)
    world.scopes.reachable.set()
    await world.reach(shard, State.READY)


async def test_an_empty_leftover_scope_is_removed_and_the_start_goes_on(world: FakeWorld) -> None:
    world.scopes.put(unit())
    shard = await world.run()
    calls = [call for call, _ in world.scopes.calls]
    assert calls[:5] == ["start", "find", "stop", "start", "invocation_id"]
    assert shard.record.invocation_id == f"{2:032x}"


async def test_a_leftover_scope_that_does_not_go_fails_the_start(
    world: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(starting, "_LEFTOVER_S", 0)
    world.scopes.stuck = True
    world.scopes.put(unit())
    shard = await world.start()
    await world.until(lambda: shard.record.reason.startswith("ScopeFailed"))
    assert shard.record.reason == f"ScopeFailed: {unit()} exists, is empty and does not go"
    world.scopes.stuck = False
    await failed(world, shard)


async def test_a_scope_that_holds_a_stranger_is_left_alone(world: FakeWorld) -> None:
    pid = stranger()
    world.scopes.put(unit(), pid)
    shard = await world.start()
    await world.until(lambda: shard.record.reason.startswith("ScopeFailed"))
    assert shard.record.reason == f"ScopeFailed: {unit()} exists and holds other processes"
    await world.until(lambda: world.exit_file() == "closed")
    assert is_alive(pid)
    assert {call for call, _ in world.scopes.calls} == {"start", "find"}


async def test_a_gate_that_is_killed_before_its_scope_exists_fails_the_start(world: FakeWorld) -> None:
    held = world.scopes.hold("start")
    shard = await world.start()
    await held.arrived()
    os.kill(world.launcher.gates[0].process.pid, signal.SIGKILL)
    await world.until(lambda: not is_alive(world.launcher.gates[0].process.pid))
    held.released.set()
    await world.reach(shard, State.FAILED)
    assert shard.record.reason == f"ScopeFailed: the start job of {unit()} ended with failed"
    assert world.program("a").runs == 0


async def test_a_gate_that_is_killed_while_its_scope_is_made_fails_the_start(
    world: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(pid: int) -> str:
        raise NoSuchProcess(f"pid {pid}")

    monkeypatch.setattr(starting, "control_group", gone)
    shard = await world.start()
    assert await failed(world, shard) == "ScopeFailed: its processes were killed before it was started"


async def test_a_scope_that_is_stopped_while_it_is_started_fails_the_start(world: FakeWorld) -> None:
    held = world.scopes.hold("invocation_id")
    shard = await world.start()
    await held.arrived()
    world.scopes.kill_all(unit())
    await world.until(lambda: not world.scopes.exists(unit()))
    held.released.set()
    await world.reach(shard, State.FAILED)
    assert shard.record.reason == f"ScopeFailed: {unit()} was stopped while it was started"


@pytest.mark.parametrize(
    ("refusal", "reason"),
    [
        (EngineUnavailable("no output"), "EngineUnavailable: no output"),
        (
            OSError(errno.EAGAIN, os.strerror(errno.EAGAIN)),
            "EngineUnavailable: cannot start process: [Errno 11] Resource temporarily unavailable",
        ),
    ],
    ids=["refused", "no-room"],
)
async def test_a_process_that_cannot_be_started_takes_those_before_it_along(
    world: FakeWorld, refusal: Exception, reason: str
) -> None:
    world.launcher.refusals["engine"] = refusal
    shard = await world.start("a", "head")
    assert await failed(world, shard) == reason
    assert (world.exit_file("a", "head"), world.program("a", "head").runs) == ("closed", 0)
    assert world.scopes.made == 0


async def test_all_processes_are_in_the_scope_before_the_first_one_runs(world: FakeWorld) -> None:
    held = world.records.hold(lambda content: content["phase"] == "waiting")
    shard = await world.start("a", "head", "metrics")
    await held.arrived()
    assert world.launcher.launched == [("a", "head"), ("a", "metrics"), ("a", "engine")]
    assert list(shard.record.pids) == ["head", "metrics", "engine"]
    assert world.scopes.pids(unit()) == {pid.pid for pid in shard.record.pids.values()}
    held.released.set()
    await world.reach(shard, State.READY)


async def test_what_waits_for_the_leader_is_held_until_its_port_is_open(world: FakeWorld) -> None:
    world.probes.listening.say(False)
    shard = await world.start("a", "head", **LEADER)
    await world.until(lambda: world.probes.looked_for and world.program("a", "head").runs)
    assert (shard.record.state, shard.record.reason) == (
        State.STARTING,
        "engine waits for 127.0.0.1:6379 (leader)",
    )
    assert world.program("a").runs == 0
    world.probes.listening.say(True)
    await world.reach(shard, State.READY)
    assert set(world.probes.looked_for) == {("127.0.0.1", 6379)}


async def test_an_address_in_brackets_is_looked_for_without_them(world: FakeWorld) -> None:
    await world.run("a", "head", **(LEADER | {"leader_address": "::1"}))
    assert world.probes.looked_for == [("::1", 6379)]


async def llama(world: FakeWorld, *peers: str) -> Shard:
    """The first of several nodes, which waits for its peers; what would run is a program of ours."""
    found = world.launcher.resolve

    def ours(spec: ShardSpec, plan: Plan) -> Plan:
        processes = (replace(one, argv=world.program("a").argv) for one in plan.processes)
        return found(spec, replace(plan, processes=tuple(processes), http=None))

    world.launcher.resolve = ours  # type: ignore[method-assign]
    values = {
        "engine": "llama-cpp",
        "model": "/m.gguf",
        "nodes": len(peers) + 1,
        "rank": 0,
        "leader_address": "10.0.0.1",
        "leader_port": 50_052,
        "peers": list(peers),
    }
    return await world.node.start("a", values)


async def test_each_peer_is_waited_for_and_called_one(world: FakeWorld) -> None:
    first, second = ("10.0.0.2", 50_052), ("node-c", 50_053)
    there: set[tuple[str, int]] = set()

    async def is_listening(host: str, port: int) -> bool:
        await asyncio.sleep(0)
        return (host, port) in there

    world.probes.is_listening = is_listening  # type: ignore[method-assign]
    shard = await llama(world, "10.0.0.2", "node-c:50053")
    await world.until(lambda: shard.record.reason == "engine waits for 10.0.0.2:50052 (peer)")
    there.add(first)
    await world.until(lambda: shard.record.reason == "engine waits for node-c:50053 (peer)")
    assert world.program("a").runs == 0
    there.add(second)
    await world.reach(shard, State.READY)


async def test_a_rank_that_is_not_the_first_waits_for_its_leader_whatever_peers_it_names(
    world: FakeWorld,
) -> None:
    world.probes.listening.say(False)
    shard = await world.start("a", rank=1, nodes=2, peers=["127.0.0.1:6379"], **LEADER)
    await world.until(lambda: world.probes.looked_for)
    assert shard.record.reason == "engine waits for 127.0.0.1:6379 (leader)"


async def test_a_leader_that_does_not_listen_in_time_fails_the_start(world: FakeWorld) -> None:
    world.probes.listening.say(False)
    shard = await world.start("a", rank=1, nodes=2, rendezvous_timeout_s=0, **LEADER)
    assert await failed(world, shard) == "127.0.0.1:6379 (leader) not listening after 0 s"


async def test_the_wait_for_the_leader_is_written_down(world: FakeWorld) -> None:
    world.probes.listening.say(False)
    shard = await world.start("a", rank=1, nodes=2, **LEADER)
    await world.until(lambda: shard.record.leader_until and shard.inbox.empty())
    await world.until(lambda: world.records.written[-1]["leader_until"] == shard.record.leader_until)


async def test_a_stop_during_the_start_runs_nothing(world: FakeWorld) -> None:
    held = world.scopes.hold("start")
    shard = await world.start()
    await held.arrived()
    await world.stop()
    await world.reach(shard, State.STOPPED)
    assert (shard.record.reason, shard.record.exit_code, world.program("a").runs) == ("stopped", -1, 0)
    assert (world.scopes.made, world.story.states("a")) == (0, ["starting", "draining", "stopped"])


async def test_a_stop_right_after_the_start_runs_nothing(world: FakeWorld) -> None:
    shard = await world.start()
    await world.stop()
    await world.reach(shard, State.STOPPED)
    assert (world.program("a").runs, world.scopes.pids(unit()), shard.record.exit_code) == (0, set(), -1)


async def test_a_stop_while_the_leader_is_waited_for_runs_nothing_more(world: FakeWorld) -> None:
    world.probes.listening.say(False)
    shard = await world.start("a", "head", **LEADER)
    await world.until(lambda: world.probes.looked_for and world.program("a", "head").runs)
    await world.stop()
    await world.reach(shard, State.STOPPED)
    assert (shard.record.exit_code, world.exit_file("a", "head"), world.program("a").runs) == (-1, "143", 0)


async def test_a_gate_that_a_stop_kills_before_it_can_say_so_was_never_open(world: FakeWorld) -> None:
    world.probes.listening.say(False)
    shard = await world.start("a", rank=1, nodes=2, **LEADER)
    await world.until(lambda: world.probes.looked_for)
    world.scopes.kill_all(unit())
    await world.reach(shard, State.FAILED)
    assert (shard.record.reason, shard.record.exit_code, shard.record.exit_signal) == (
        "engine never ran",
        -1,
        "",
    )


async def test_a_drain_during_the_start_goes_on_and_never_becomes_ready(world: FakeWorld) -> None:
    held = world.scopes.hold("start")
    shard = await world.start()
    await held.arrived()
    await world.node.drain("a")
    held.released.set()
    await world.until(lambda: shard.record.phase == "drained" and world.program("a").runs)
    assert world.story.states("a") == ["starting", "draining"]


async def test_only_so_many_scopes_are_made_at_once(world: FakeWorld) -> None:
    world.world.starts = asyncio.Semaphore(1)
    held = world.scopes.hold("start")
    first, second = await world.start("a"), await world.start("b")
    await held.arrived()
    await world.settle(second)
    assert world.launcher.launched == [("a", "engine")]
    held.released.set()
    await world.reach(first, State.READY)
    await world.reach(second, State.READY)


async def test_a_scope_gets_what_the_spec_limits(world: FakeWorld) -> None:
    shard = await world.start(
        memory_max=1 << 30,
        cpu_weight=50,
        tasks_max=64,
        allowed_cpus="0-2,9",
        allowed_memory_nodes="1",
        stop_timeout_s=2.5,
    )
    assert scope_properties(shard.record, "other.slice") == {
        "Slice": Variant("s", "other.slice"),
        "Before": Variant("as", ["llmgw-engines.target"]),
        "TimeoutStopUSec": Variant("t", 2_500_000),
        "TasksMax": Variant("t", 64),
        "MemoryMax": Variant("t", 1 << 30),
        "CPUWeight": Variant("t", 50),
        "AllowedCPUs": Variant("ay", bytes([0b0000_0111, 0b0000_0010])),
        "AllowedMemoryNodes": Variant("ay", bytes([0b0000_0010])),
    }


async def test_a_scope_has_no_limits_that_nobody_asked_for(world: FakeWorld) -> None:
    await world.run()
    assert world.scopes.properties(unit()) == {
        "Description": Variant("s", "LLM shard a: command"),
        "Slice": Variant("s", "llmgw.slice"),
        "Before": Variant("as", ["llmgw-engines.target"]),
        "TimeoutStopUSec": Variant("t", 60_000_000),
        "TasksMax": Variant("t", 2**64 - 1),
    }
