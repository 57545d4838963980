"""Scopes of a manager on a private bus: made, found, stopped, and the news of them."""

import asyncio
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from llmgwd.bus.connection import BusLost, CallFailed, CallTimedOut, Connection
from llmgwd.bus.library import Variant
from llmgwd.host import systemd
from llmgwd.host.scope_names import SCOPES
from llmgwd.host.systemd import Scope, ScopeExists, ScopeRefused, Systemd
from tests.bus.private_bus import PrivateBus
from tests.host.pid1 import MANAGER, NO_SUCH_UNIT, ROOT, SERVICE, FakePid1

UNIT = "llmgw-shard-a.scope"
ALIEN = "llmgw-shard-a\\x2db.scope"
FAILED = "org.freedesktop.DBus.Error.Failed"


@dataclass
class World:
    """The bus, the manager on it, and what is tested; `stopped`: units that somebody else is stopping."""

    bus: PrivateBus
    pid1: FakePid1
    systemd: Systemd
    client: Connection
    manager: Connection
    stopped: list[str]

    async def start(self, unit: str = UNIT) -> None:
        await self.systemd.start(unit, (11, 12), description="LLM shard 'a'", properties={})

    async def settle(self) -> None:
        """Returns when all that the manager has sent so far was heard, and looked into."""
        await self.client.call(SERVICE, ROOT, "org.freedesktop.DBus.Peer", "Ping")
        await asyncio.gather(*self.systemd._looks.values())

    async def replace_manager(self) -> None:
        """The manager leaves the bus and comes back, as PID 1 does when it executes itself anew."""
        bus = "org.freedesktop.DBus"
        await self.manager.call(bus, "/org/freedesktop/DBus", bus, "ReleaseName", "s", SERVICE)
        await self.manager.own_name()

    def restart_bus(self) -> None:
        self.bus.kill()
        self.bus.start()


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    bus = PrivateBus(tmp_path)
    bus.start()
    manager, client = Connection(bus.address, name=SERVICE), Connection(bus.address)
    await manager.connect()
    pid1 = FakePid1(manager)
    await manager.own_name()
    await client.connect()
    stopped: list[str] = []
    tested = Systemd(client)
    tested.on_foreign_stop = stopped.append
    await tested.open()
    yield World(bus, pid1, tested, client, manager, stopped)
    await client.close()
    await manager.close()
    bus.kill()


# Started


async def test_a_scope_is_asked_for_with_its_processes_and_properties(world: World) -> None:
    await world.systemd.start(
        UNIT, (11, 12), description="LLM shard 'a'", properties={"MemoryMax": Variant("t", 1 << 40)}
    )
    ((unit, mode, properties, others),) = world.pid1.asked("StartTransientUnit")
    assert (unit, mode, dict(properties), others) == (
        UNIT,
        "fail",
        {
            "PIDs": Variant("au", [11, 12]),
            "Description": Variant("s", "LLM shard 'a'"),
            "CollectMode": Variant("s", "inactive-or-failed"),
            "MemoryMax": Variant("t", 1 << 40),
            "OOMPolicy": Variant("s", "continue"),
        },
        [],
    )


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_start_ends_with_its_job_whenever_that_is_told(world: World, when: str) -> None:
    world.pid1.started = when
    await world.start()
    assert world.systemd._starting == {}


async def test_a_start_waits_for_its_own_job_and_for_no_other(world: World) -> None:
    world.pid1.started = "never"
    world.pid1.job_new(UNIT)  # a stop of the scope of before
    start = asyncio.create_task(world.start())
    await world.pid1.until("StartTransientUnit")
    world.pid1.job_removed(UNIT, "canceled", job=1)
    world.pid1.job_removed(ALIEN, "failed", job=2)
    await world.settle()
    assert not start.done()
    world.pid1.job_removed(UNIT)
    await start


async def test_many_starts_at_once_do_not_take_each_others_ends(world: World) -> None:
    world.pid1.started = "never"
    starts = [asyncio.create_task(world.start(f"llmgw-shard-{number}.scope")) for number in range(3)]
    await world.pid1.until("StartTransientUnit", 3)
    order = [str(body[0]) for body in world.pid1.asked("StartTransientUnit")]
    world.pid1.job_removed(order[1], "failed", job=2)
    world.pid1.job_removed(order[0], job=1)
    world.pid1.job_removed(order[2], job=3)
    ends = await asyncio.gather(*starts, return_exceptions=True)
    assert sorted(map(repr, ends)) == sorted(
        ["None", "None", repr(ScopeRefused(f"the start job of {order[1]} ended with failed"))]
    )


@pytest.mark.parametrize("result", ["canceled", "timeout", "failed", "dependency", "skipped"])
async def test_a_job_that_ends_otherwise_is_a_refusal(world: World, result: str) -> None:
    world.pid1.result = result
    with pytest.raises(ScopeRefused, match=f"^the start job of {UNIT} ended with {result}$"):
        await world.start()


async def test_a_name_that_is_taken_is_told_apart(world: World) -> None:
    text = f"Unit {UNIT} was already loaded or has a fragment file."
    world.pid1.refuse("StartTransientUnit", "org.freedesktop.systemd1.UnitExists", text)
    with pytest.raises(ScopeExists, match=f"^{UNIT}$"):
        await world.start()


async def test_any_other_refusal_says_what_systemd_says(world: World) -> None:
    world.pid1.refuse("StartTransientUnit", FAILED, "Failed to set unit properties: Slice a.slice is masked")
    with pytest.raises(ScopeRefused) as refused:
        await world.start()
    assert str(refused.value) == (
        f"cannot start scope {UNIT}: Failed to set unit properties: Slice a.slice is masked"
    )
    assert world.systemd._starting == {}


def names_of_properties(world: World) -> list[list[str]]:
    return [[name for name, _ in body[2]] for body in world.pid1.asked("StartTransientUnit")]


async def test_a_systemd_that_does_not_know_oom_policy_is_asked_again_without_once(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, systemd.__name__)
    world.pid1.knows_oom_policy = False
    await world.start()
    await world.start("llmgw-shard-b.scope")
    assert [("OOMPolicy" in names) for names in names_of_properties(world)] == [True, False, False]
    assert [record.getMessage() for record in caplog.records] == [
        "this systemd has no OOMPolicy for scopes; it is left out"
    ]


async def test_a_burst_of_starts_learns_together_that_there_is_no_oom_policy(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, systemd.__name__)
    world.pid1.knows_oom_policy = False
    await asyncio.gather(*(world.start(f"llmgw-shard-{number}.scope") for number in range(5)))
    assert [("OOMPolicy" in names) for names in names_of_properties(world)] == [True] * 5 + [False] * 5
    assert len(caplog.records) == 1


async def test_another_property_that_can_not_be_set_is_a_refusal(world: World) -> None:
    text = "Cannot set property AllowedCPUs, or unknown property."
    world.pid1.refuse("StartTransientUnit", "org.freedesktop.DBus.Error.PropertyReadOnly", text)
    with pytest.raises(ScopeRefused, match=f"^cannot start scope {UNIT}: {text}$"):
        await world.start()
    assert len(world.pid1.asked("StartTransientUnit")) == 1


async def test_a_job_without_an_end_has_no_known_outcome(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(systemd, "_JOB_S", 0.02)
    world.pid1.started = "never"
    with pytest.raises(CallTimedOut, match=rf"^the start job of {UNIT} did not end in 0\.02 s$"):
        await world.start()
    assert world.systemd._starting == {}


async def test_a_bus_that_is_lost_before_the_answer_leaves_the_outcome_open(world: World) -> None:
    world.pid1.held.add("StartTransientUnit")
    start = asyncio.create_task(world.start())
    await world.pid1.until("StartTransientUnit")
    world.restart_bus()
    with pytest.raises(BusLost):
        await start


async def test_a_bus_that_is_lost_before_the_job_has_ended_leaves_the_outcome_open(world: World) -> None:
    world.pid1.started = "never"
    start = asyncio.create_task(world.start())
    await world.pid1.until("StartTransientUnit")
    await world.settle()
    world.restart_bus()
    with pytest.raises(BusLost, match=r"^the bus was lost before /org/freedesktop/systemd1/job/1 ended$"):
        await start


async def test_news_are_asked_for_again_when_the_bus_is_back(world: World) -> None:
    world.pid1.refuse("Subscribe", "org.freedesktop.systemd1.AlreadySubscribed", "Client is subscribed.")
    world.restart_bus()
    await world.pid1.until("Subscribe", 2)
    await world.systemd.wait_reachable()
    await world.start()


async def test_a_manager_that_was_replaced_is_asked_for_news_again(world: World) -> None:
    world.pid1.started = "never"
    start = asyncio.create_task(world.start())
    await world.pid1.until("StartTransientUnit")
    await world.settle()
    await world.replace_manager()
    with pytest.raises(BusLost):
        await start
    await world.pid1.until("Subscribe", 2)


async def test_a_start_that_is_given_up_leaves_nothing(world: World) -> None:
    world.pid1.started = "never"
    start = asyncio.create_task(world.start())
    await world.pid1.until("StartTransientUnit")
    start.cancel()
    await asyncio.wait({start})
    assert (start.cancelled(), world.systemd._starting) == (True, {})


async def test_nobody_but_the_manager_ends_a_job(world: World) -> None:
    world.pid1.started = "never"
    start = asyncio.create_task(world.start())
    await world.pid1.until("StartTransientUnit")
    forger = Connection(world.bus.address)
    await forger.connect()
    forger.emit(ROOT, MANAGER, "JobRemoved", "uoss", 1, f"{ROOT}/job/1", UNIT, "done")
    await forger.call("org.freedesktop.DBus", "/", "org.freedesktop.DBus", "GetId")
    await world.settle()
    assert not start.done()
    world.pid1.job_removed(UNIT)
    await start
    await forger.close()


# Found


async def test_a_scope_is_found_with_what_tells_it_apart(world: World) -> None:
    world.pid1.put(UNIT, invocation=bytes(range(16)), group="/llmgw.slice/x")
    found = await world.systemd.find(UNIT)
    assert found == Scope(UNIT, "active", "000102030405060708090a0b0c0d0e0f", "/llmgw.slice/x")
    assert await world.systemd.invocation_id(UNIT) == "000102030405060708090a0b0c0d0e0f"


async def test_a_scope_that_is_not_there_is_none(world: World) -> None:
    assert (await world.systemd.find(UNIT), await world.systemd.invocation_id(UNIT)) == (None, "")


@pytest.mark.parametrize("state", ["inactive", "failed"])
async def test_a_scope_that_has_ended_is_none(world: World, state: str) -> None:
    world.pid1.put(UNIT, state)
    assert await world.systemd.find(UNIT) is None


@pytest.mark.parametrize(
    "error",
    [
        "org.freedesktop.DBus.Error.UnknownObject",
        "org.freedesktop.DBus.Error.UnknownProperty",
        "org.freedesktop.DBus.Error.UnknownInterface",
        NO_SUCH_UNIT,
    ],
)
async def test_a_scope_that_goes_while_it_is_looked_at_is_none(world: World, error: str) -> None:
    world.pid1.put(UNIT)
    world.pid1.refuse("Get", error, "It has gone.")
    assert await world.systemd.find(UNIT) is None


async def test_an_error_is_no_answer_to_whether_there_is_a_scope(world: World) -> None:
    world.pid1.refuse("GetUnit", "org.freedesktop.DBus.Error.AccessDenied", "no")
    with pytest.raises(CallFailed):
        await world.systemd.find(UNIT)
    world.pid1.held.add("GetUnit")
    find = asyncio.create_task(world.systemd.find(UNIT))
    await world.pid1.until("GetUnit", 2)
    world.restart_bus()
    with pytest.raises(BusLost):
        await find


async def test_all_live_scopes_of_ours_are_listed(world: World) -> None:
    world.pid1.put(UNIT)
    world.pid1.put(ALIEN, "deactivating", b"\2" * 16)
    world.pid1.put("llmgw-shard-failed.scope", "failed")
    assert await world.systemd.scopes() == (
        Scope(UNIT, "active", "01" * 16, f"/llmgw.slice/{UNIT}"),
        Scope(ALIEN, "deactivating", "02" * 16, f"/llmgw.slice/{ALIEN}"),
    )
    assert world.pid1.asked("ListUnitsByPatterns") == [[[], [SCOPES]]]
    assert world.pid1.asked("GetUnit") == [[UNIT], [ALIEN]]


async def test_a_scope_that_goes_while_all_are_listed_is_left_out(world: World) -> None:
    world.pid1.put(UNIT)
    world.pid1.put(ALIEN)
    world.pid1.refuse("GetUnit", NO_SUCH_UNIT, "gone")
    assert [scope.unit for scope in await world.systemd.scopes()] == [ALIEN]


# Stopped


async def test_orders_name_the_unit_and_all_of_it(world: World) -> None:
    await world.systemd.stop(UNIT)
    await world.systemd.kill(UNIT, 9)
    orders = [(member, body) for member, body in world.pid1.calls if member.endswith("Unit")]
    assert orders == [("StopUnit", [UNIT, "replace"]), ("KillUnit", [UNIT, "all", 9])]


@pytest.mark.parametrize("error", [NO_SUCH_UNIT, "org.freedesktop.systemd1.NoSuchProcess"])
async def test_an_order_to_nobody_is_carried_out(world: World, error: str) -> None:
    for member in ("StopUnit", "KillUnit"):
        world.pid1.refuse(member, error, "gone")
    await world.systemd.stop(UNIT)
    await world.systemd.kill(UNIT, 9)


async def test_an_order_that_is_refused_is_an_error(world: World) -> None:
    for member in ("StopUnit", "KillUnit"):
        world.pid1.refuse(member, FAILED, "no")
    with pytest.raises(CallFailed):
        await world.systemd.stop(UNIT)
    with pytest.raises(CallFailed):
        await world.systemd.kill(UNIT, 9)


# Stopped by others


async def test_a_stop_that_somebody_else_ordered_is_told_before_it_is_carried_out(world: World) -> None:
    world.pid1.put(UNIT)
    world.pid1.job_new(UNIT, "stop")
    await world.settle()
    assert (world.stopped, await world.systemd.is_stopped_by_others(UNIT)) == ([UNIT], True)


@pytest.mark.parametrize("state", ["deactivating", "inactive", "failed"])
async def test_of_a_job_that_has_ended_the_scope_tells_what_it_was(world: World, state: str) -> None:
    world.pid1.put(UNIT, state)
    world.pid1.job_new(UNIT, ended=True)
    world.pid1.job_new(ALIEN, ended=True)  # a unit that has gone, too
    await world.settle()
    assert sorted(world.stopped) == [UNIT, ALIEN]


async def test_a_start_of_a_running_scope_is_no_stop(world: World) -> None:
    world.pid1.put(UNIT)
    world.pid1.job_new(UNIT, "start")
    world.pid1.job_new(UNIT, ended=True)
    await world.settle()
    assert (world.stopped, await world.systemd.is_stopped_by_others(UNIT)) == ([], False)


async def test_a_stop_right_after_such_a_start_is_told_once(world: World) -> None:
    world.pid1.put(UNIT)
    for kind in ("start", "stop", "stop"):
        world.pid1.job_new(UNIT, kind)
    await world.settle()
    assert (world.stopped, world.systemd._looks) == ([UNIT], {})


async def test_our_own_orders_are_nobody_elses(world: World) -> None:
    world.pid1.put(UNIT, "deactivating")
    await world.systemd.stop(UNIT)
    world.pid1.put(ALIEN, "deactivating")
    await world.systemd.kill(ALIEN, 9)
    world.pid1.job_new(ALIEN)
    await world.start("llmgw-shard-c.scope")
    await world.settle()
    assert (world.stopped, await world.systemd.is_stopped_by_others(UNIT)) == ([], False)


async def test_a_stop_while_it_is_started_is_the_starts_to_tell(world: World) -> None:
    world.pid1.started = "never"
    start = asyncio.create_task(world.start())
    await world.pid1.until("StartTransientUnit")
    world.pid1.job_new(UNIT)
    world.pid1.job_removed(UNIT, "canceled", job=1)
    with pytest.raises(ScopeRefused):
        await start
    assert world.stopped == []


async def test_units_that_are_not_ours_are_not_looked_at(world: World) -> None:
    for unit in ("llmgwd.service", "llmgw.slice", "xllmgw-shard-a.scope"):
        world.pid1.job_new(unit)
    await world.settle()
    assert (world.stopped, world.pid1.asked("Get")) == ([], [])


async def test_the_question_waits_for_news_that_are_under_way(world: World) -> None:
    world.pid1.put(UNIT, "deactivating")
    world.pid1.job_new(UNIT)
    assert await world.systemd.is_stopped_by_others(UNIT)


async def test_a_new_start_begins_with_a_clean_slate(world: World) -> None:
    world.pid1.put(UNIT, "deactivating")
    world.pid1.job_new(UNIT)
    await world.settle()
    await world.start()
    assert not await world.systemd.is_stopped_by_others(UNIT)
    await world.systemd.stop(ALIEN)
    await world.start(ALIEN)
    world.pid1.put(ALIEN, "deactivating")
    world.pid1.job_new(ALIEN)
    await world.settle()
    assert world.stopped == [UNIT, ALIEN]


async def test_a_look_that_is_refused_says_nothing(world: World) -> None:
    world.pid1.refuse("GetUnit", FAILED, "no")
    world.pid1.job_new(UNIT, ended=True)
    await world.settle()
    assert (world.stopped, world.systemd._looks) == ([], {})


async def test_a_look_that_is_cut_off_is_repeated(world: World) -> None:
    world.pid1.held.add("Get")
    world.pid1.job_new(UNIT)
    await world.pid1.until("Get")
    world.pid1.held.clear()
    world.restart_bus()
    assert (await world.systemd.is_stopped_by_others(UNIT), world.stopped) == (True, [UNIT])


async def test_a_look_ends_with_its_connection(world: World) -> None:
    world.pid1.held.add("Get")
    world.pid1.job_new(UNIT)
    await world.pid1.until("Get")
    looks = list(world.systemd._looks.values())
    await world.client.close()
    assert (await asyncio.gather(*looks), world.stopped) == ([None], [])


async def test_an_end_does_not_wait_for_ever_to_know_who_ordered_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(systemd, "_NEWS_S", 0.02)
    world.pid1.held.update({"Get", "Ping"})
    world.pid1.job_new(UNIT)
    await world.pid1.until("Get")
    assert not await world.systemd.is_stopped_by_others(UNIT)
    world.pid1.held.clear()
    world.restart_bus()
    await asyncio.gather(*world.systemd._looks.values())


async def test_a_manager_that_is_off_the_bus_is_no_answer(world: World) -> None:
    name = "org.freedesktop.DBus.Error.NameHasNoOwner"
    world.pid1.refuse("GetUnit", name, "off")
    with pytest.raises(CallTimedOut, match=r"^systemd was off the bus when asked to GetUnit$"):
        await world.systemd.find(UNIT)
    world.pid1.refuse("StartTransientUnit", name, "off")
    with pytest.raises(CallTimedOut):
        await world.start()


async def test_a_manager_that_executes_itself_anew_is_waited_for(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(systemd, "_AWAY_STEP_S", 0.001)
    world.pid1.refuse("Ping", "org.freedesktop.DBus.Error.NameHasNoOwner", "off", times=3)
    await world.systemd.wait_reachable()
    assert len(world.pid1.asked("Ping")) == 4
