"""Calls that we make."""

import asyncio
import subprocess
from pathlib import Path

import pytest

from llmgwd.bus.connection import BusLost, CallFailed, CallTimedOut, Connection
from llmgwd.bus.library import Message, MessageType, Variant
from llmgwd.bus.link import Link
from tests.bus.conftest import Connect
from tests.bus.example import MANAGER, Example
from tests.bus.private_bus import PrivateBus

BUS = ("org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus")


async def test_an_answer_gives_its_arguments(example: Example, client: Connection) -> None:
    options = {"seconds": Variant("d", 1.5), "names": Variant("as", ["a", "b"])}
    assert await client.call(*MANAGER, "Echo", "sa{sv}", "ü", options) == ["ü", options]


async def test_an_error_gives_its_name_and_text(example: Example, client: Connection) -> None:
    with pytest.raises(CallFailed) as failure:
        await client.call(*MANAGER, "Refuse", "s", "port 8001 is taken")
    assert (failure.value.error, failure.value.text) == (
        "org.example.Node1.Error.Refused",
        "Refused: port 8001 is taken",
    )


async def test_an_error_without_a_text_is_one_all_the_same(connect: Connect, client: Connection) -> None:
    def answer(link: Link, call: Message) -> None:
        if call.message_type is MessageType.METHOD_CALL:
            kind = MessageType.ERROR
            to = call.sender
            link.send(
                Message(destination=to, message_type=kind, error_name="a.b.Bare", reply_serial=call.serial)
            )

    service = await connect()
    service._link._received = answer
    with pytest.raises(CallFailed) as failure:
        await client.call(service.unique_name, "/", "a.b", "C")
    assert (failure.value.error, failure.value.text, str(failure.value)) == ("a.b.Bare", "", "a.b.Bare")


async def test_a_call_of_nobody_fails(client: Connection) -> None:
    with pytest.raises(CallFailed, match="NameHasNoOwner"):
        await client.call("org.example.Nobody", "/", "org.example.Nobody", "Call")


async def test_a_call_starts_nobody(private_bus: PrivateBus, client: Connection, tmp_path: Path) -> None:
    started = tmp_path / "started"
    command = f'/bin/sh -c "touch {started}; exit 1"'
    service = f"[D-BUS Service]\nName=org.example.Sleeper\nExec={command}\n"
    (private_bus.services / "org.example.Sleeper.service").write_text(service)
    await client.call(*BUS, "ReloadConfig")
    with pytest.raises(CallFailed, match="NameHasNoOwner"):
        await client.call("org.example.Sleeper", "/", "org.example.Sleeper", "Call")
    assert not started.exists()
    # the proof that it could have been started
    arguments = [f"--bus={private_bus.address}", "--dest=org.example.Sleeper", "--print-reply", "/", "a.b.C"]
    await asyncio.to_thread(subprocess.run, ["dbus-send", *arguments], check=False, capture_output=True)
    assert started.exists()


async def test_a_call_that_is_not_answered_in_time_leaves_nothing(
    example: Example, client: Connection
) -> None:
    with pytest.raises(CallTimedOut, match=r"^org.example.Node1 did not answer Hold in 0.01 s$"):
        await client.call(*MANAGER, "Hold", timeout_s=0.01)
    assert client._link._in_flight == {}
    example.manager.release.set()
    assert await client.call(*MANAGER, "Echo", "sa{sv}", "the late answer is let go", {}) != []


async def test_a_call_that_is_given_up_leaves_nothing(example: Example, client: Connection) -> None:
    call = asyncio.create_task(client.call(*MANAGER, "Hold"))
    await example.manager.entered.acquire()
    call.cancel()
    await asyncio.wait([call])
    assert (call.cancelled(), client._link._in_flight) == (True, {})


async def test_a_thousand_calls_at_once_are_all_answered(example: Example, client: Connection) -> None:
    calls = [client.call(*MANAGER, "Echo", "sa{sv}", str(number), {}) for number in range(1000)]
    assert [text for text, _ in await asyncio.gather(*calls)] == [str(number) for number in range(1000)]


async def test_no_more_than_64_calls_are_in_flight(example: Example, client: Connection) -> None:
    calls = [asyncio.create_task(client.call(*MANAGER, "Hold")) for _ in range(80)]
    for _ in range(64):
        await example.manager.entered.acquire()
    with pytest.raises(CallTimedOut):
        await client.call(*MANAGER, "Echo", "sa{sv}", "waits for a place", {}, timeout_s=0.01)
    assert len(client._link._in_flight) == 64
    example.manager.release.set()
    assert await asyncio.gather(*calls) == [["released"]] * 80


async def test_a_call_in_flight_fails_when_the_bus_is_lost(
    private_bus: PrivateBus, example: Example, client: Connection
) -> None:
    calls = [asyncio.create_task(client.call(*MANAGER, "Hold")) for _ in range(70)]
    await example.manager.entered.acquire()
    private_bus.kill()
    failures = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(failure) for failure in failures] == [BusLost] * 70
    example.manager.release.set()


async def test_a_call_fails_at_once_while_the_bus_is_away(
    private_bus: PrivateBus, client: Connection
) -> None:
    private_bus.kill()
    with pytest.raises(BusLost):
        await client.call(*BUS, "GetId")
    with pytest.raises(BusLost, match=r"is away: GetId was not sent$"):
        await client.call(*BUS, "GetId")


async def test_a_call_before_the_connection_or_after_its_end_fails(private_bus: PrivateBus) -> None:
    connection = Connection(private_bus.address)
    with pytest.raises(BusLost):
        await connection.call(*BUS, "GetId")
    with pytest.raises(BusLost):
        await connection.subscribe(print, sender=BUS[0], interface=BUS[2], member="NameOwnerChanged")
    await connection.connect()
    assert connection.connected
    await connection.close()
    assert not connection.connected
    with pytest.raises(BusLost):
        await connection.call(*BUS, "GetId")
    with pytest.raises(BusLost):
        await connection.wait_connected()
    await connection.close()


async def test_closing_fails_the_calls_in_flight(example: Example, client: Connection) -> None:
    call = asyncio.create_task(client.call(*MANAGER, "Hold"))
    await example.manager.entered.acquire()
    await client.close()
    with pytest.raises(BusLost):
        await call


@pytest.mark.parametrize(
    ("signature", "value"),
    [("s", "a\0b"), ("v", Variant("as", ["\0"])), ("s", "\ud800"), ("s", 7), ("u", -1)],
)
async def test_what_dbus_can_not_carry_is_refused_before_the_bus_hangs_up(
    client: Connection, signature: str, value: object
) -> None:
    with pytest.raises(Exception, match=r".") as refusal:  # each library has its own
        await client.call(*BUS, "GetNameOwner", signature, value)
    assert not isinstance(refusal.value, (CallFailed, BusLost))
    assert client._link._in_flight == {}
    assert len(await client.call(*BUS, "GetId")) == 1


async def test_a_message_that_is_too_long_is_refused_before_the_bus_hangs_up(client: Connection) -> None:
    with pytest.raises(ValueError, match="more than the bus takes"):
        await client.call(*BUS, "GetNameOwner", "s", "x" * 2**25)
    assert len(await client.call(*BUS, "GetId")) == 1


async def test_a_person_may_be_asked_only_where_the_call_says_so(
    example: Example, client: Connection
) -> None:
    await client.call(*MANAGER, "Echo", "sa{sv}", "", {})
    await client.call(*MANAGER, "Echo", "sa{sv}", "", {}, interactive=True)
    who = [(caller.unique_name, caller.interactive) for caller in example.manager.callers]
    assert who == [(client.unique_name, False), (client.unique_name, True)]


async def test_tuples_and_mappings_and_words_are_carried_as_what_they_mean(
    example: Example, connect: Connect
) -> None:
    class Word(str):
        __slots__ = ()

    client = await connect()
    [text, options] = await client.call(*MANAGER, "Echo", "sa{sv}", Word("a"), {Word("b"): Variant("s", "c")})
    assert (text, options) == ("a", {"b": Variant("s", "c")})
