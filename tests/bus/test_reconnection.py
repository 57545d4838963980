"""A bus that goes away and comes back."""

import asyncio
import logging
from collections.abc import Iterator

import pytest

from llmgwd.bus import link, writer
from llmgwd.bus.connection import BusLost, CallFailed, CallTimedOut, Connection, NameTaken, Signal
from llmgwd.bus.ownership import take
from tests.bus.conftest import Connect, descriptors
from tests.bus.example import MANAGER, Example
from tests.bus.private_bus import PrivateBus


async def restart(bus: PrivateBus, *connections: Connection) -> None:
    """Returns when all of them are back."""
    lost = [asyncio.create_task(connection._gone.wait()) for connection in connections]
    bus.kill()
    await asyncio.wait(lost)
    bus.start()
    for connection in connections:
        await connection.wait_connected()


async def test_a_restarted_bus_finds_everything_as_it_was(
    private_bus: PrivateBus, example: Example, client: Connection
) -> None:
    signals: asyncio.Queue[Signal] = asyncio.Queue()
    await client.subscribe(signals.put_nowait, sender=MANAGER[0], interface=MANAGER[2], member="StateChanged")
    back = asyncio.Event()

    async def resume() -> None:
        assert (await client.call(*MANAGER, "Echo", "sa{sv}", "", {}, timeout_s=5))[0] == ""
        back.set()

    client.on_reconnect.append(resume)
    for _ in range(3):
        back.clear()
        # the service first, so that it owns its name when the client resumes
        service = example.connection
        lost = asyncio.create_task(service._gone.wait())
        client._where = "unix:path=/nonexistent"
        private_bus.kill()
        await lost
        private_bus.start()
        await service.wait_connected()
        client._where = private_bus.address
        await back.wait()
        example.manager.emit("StateChanged", "a", "came back")
        signal = await signals.get()
        assert signal == Signal(
            service.unique_name, MANAGER[1], MANAGER[2], "StateChanged", ["a", "came back"]
        )


async def test_nothing_of_a_lost_connection_stays_open(private_bus: PrivateBus, connect: Connect) -> None:
    connection = await connect()
    await restart(private_bus, connection)
    before = sorted(descriptors())
    for _ in range(5):
        await restart(private_bus, connection)
    assert sorted(descriptors()) == before


async def test_a_lost_bus_is_told_once(
    private_bus: PrivateBus, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    connection = await connect()
    resumed = asyncio.Event()

    async def resume() -> None:
        resumed.set()

    connection.on_reconnect.append(resume)
    await restart(private_bus, connection)
    await resumed.wait()
    told = [(record.levelname, record.getMessage().split(":")[0]) for record in caplog.records]
    bus = "the bus at unix"
    assert told == [("WARNING", f"lost {bus}"), ("INFO", bus)]


async def test_signals_are_dropped_while_the_bus_is_away(private_bus: PrivateBus, example: Example) -> None:
    private_bus.kill()
    await example.connection._gone.wait()
    example.manager.emit("StateChanged", "a", "nobody hears it")
    example.manager.changed("Gpus")


async def test_a_subscription_returns_only_when_the_bus_is_back(
    private_bus: PrivateBus, example: Example, client: Connection
) -> None:
    signals: asyncio.Queue[Signal] = asyncio.Queue()
    private_bus.kill()
    subscribing = asyncio.create_task(
        client.subscribe(signals.put_nowait, sender=MANAGER[0], interface=MANAGER[2], member="StateChanged")
    )
    await client._gone.wait()
    await example.connection._gone.wait()
    assert not subscribing.done()
    private_bus.start()
    await subscribing
    await example.connection.wait_connected()
    await client.call(*MANAGER, "Echo", "sa{sv}", "", {})
    example.manager.emit("StateChanged", "a", "heard")
    assert (await signals.get()).body == ["a", "heard"]


async def test_a_subscription_that_the_bus_refuses_is_none(client: Connection) -> None:
    with pytest.raises(CallFailed):
        await client.subscribe(print, sender="no name", interface="a.b", member="C")
    assert client._subscriptions._wanted == []


async def test_resuming_is_stopped_and_begins_again_when_the_bus_is_lost_again(
    private_bus: PrivateBus, connect: Connect
) -> None:
    connection = await connect()
    begun: asyncio.Queue[str] = asyncio.Queue()

    async def resume() -> None:
        begun.put_nowait("begun")
        try:
            await asyncio.Event().wait()
        finally:
            begun.put_nowait("stopped")

    connection.on_reconnect.append(resume)
    await restart(private_bus, connection)
    assert await begun.get() == "begun"
    await restart(private_bus, connection)
    assert [await begun.get(), await begun.get()] == ["stopped", "begun"]


async def test_one_that_can_not_resume_does_not_keep_the_others_from_it(
    private_bus: PrivateBus, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    connection = await connect()
    resumed = asyncio.Event()

    async def fail() -> None:
        raise RuntimeError("no")

    async def resume() -> None:
        resumed.set()

    connection.on_reconnect += [fail, resume]
    await restart(private_bus, connection)
    await resumed.wait()
    assert "cannot resume" in caplog.text


async def test_a_name_that_somebody_has_is_taken(example: Example, connect: Connect) -> None:
    with pytest.raises(NameTaken, match=rf"^org.example.Node1 is owned by {example.connection.unique_name}$"):
        await connect(Example.NAME)


async def test_a_name_that_the_policy_forbids_fails_with_the_reason(connect: Connect) -> None:
    with pytest.raises(CallFailed, match="AccessDenied"):
        await connect("org.example.Forbidden")


async def test_a_name_that_somebody_took_meanwhile_is_lost_for_good(
    private_bus: PrivateBus, example: Example, connect: Connect
) -> None:
    connection = example.connection
    told = asyncio.Event()
    connection.on_name_lost = told.set
    connection._where = "unix:path=/nonexistent"
    private_bus.kill()
    await connection._gone.wait()
    private_bus.start()
    other = await connect(Example.NAME)
    connection._where = private_bus.address
    await told.wait()
    await connection.wait_connected()
    await other.close()
    told.clear()
    await restart(private_bus, connection)
    [names] = await connection.call(*["org.freedesktop.DBus", "/", "org.freedesktop.DBus", "ListNames"])
    assert (Example.NAME in names, told.is_set()) == (False, False)


async def test_a_name_is_waited_for_while_the_connection_before_still_owns_it() -> None:
    answers: Iterator[list[object]] = iter([[3], [":1.7"], [3], [":1.7"], [1]])
    asked: list[str] = []

    async def ask(member: str, signature: str, *body: object) -> list[object]:
        asked.append(member)
        return next(answers)

    await take(ask, "org.example.Node1", ":1.7")
    assert asked == ["RequestName", "GetNameOwner", "RequestName", "GetNameOwner", "RequestName"]


async def test_no_bus_is_a_sentence(nothing_left: None) -> None:
    with pytest.raises(ConnectionError) as failure:
        await Connection("unix:path=/nonexistent/bus").connect()
    assert str(failure.value) == (
        "cannot connect to the bus at unix:path=/nonexistent/bus: "
        "unix:path=/nonexistent/bus: [Errno 2] No such file or directory"
    )


async def test_no_session_bus_is_a_sentence(nothing_left: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DBUS_SESSION_BUS_ADDRESS", raising=False)
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    with pytest.raises(ConnectionError) as failure:
        await Connection("session").connect()
    assert str(failure.value) == (
        "cannot connect to the session bus: "
        "neither DBUS_SESSION_BUS_ADDRESS nor XDG_RUNTIME_DIR tells where it is"
    )


async def test_the_second_of_two_addresses_is_tried(private_bus: PrivateBus) -> None:
    connection = Connection(f"unix:path=/nonexistent;tcp:host=127.0.0.1,port=1;{private_bus.address}")
    await connection.connect()
    await connection.close()


@pytest.mark.parametrize("answer", [b"", b"REJECTED EXTERNAL\r\n", b"\xff\r\n", b"x" * 20000, b"OK 12\r\n"])
async def test_a_bus_that_hangs_up_during_the_greeting_is_refused(
    nothing_left: None, tmp_path: str, answer: bytes
) -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n")
        writer.write(answer)
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_unix_server(greet, f"{tmp_path}/bus"):
        with pytest.raises(ConnectionError, match="cannot connect"):
            await Connection(f"unix:path={tmp_path}/bus").connect()


async def test_a_bus_that_says_nothing_is_given_up(
    nothing_left: None, tmp_path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "CONNECT_S", 0.01)
    ended = asyncio.Event()

    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()
        await writer.wait_closed()
        ended.set()

    async with await asyncio.start_unix_server(say_nothing, f"{tmp_path}/bus"):
        with pytest.raises(ConnectionError, match=r"does not answer in 0.01 s$"):
            await Connection(f"unix:path={tmp_path}/bus").connect()
        await ended.wait()


async def test_a_bus_that_reads_nothing_more_is_lost_before_memory_is(
    private_bus: PrivateBus, example: Example, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "MAX_QUEUED", 2**20)
    connection = example.connection
    private_bus.freeze()
    while connection.connected:
        example.manager.emit("StateChanged", "a", "x" * 1000)
    private_bus.thaw()
    await connection.wait_connected()
    [owner] = await connection.call(
        "org.freedesktop.DBus", "/", "org.freedesktop.DBus", "GetNameOwner", "s", Example.NAME
    )
    assert owner == connection.unique_name


async def test_closing_stops_coming_back(private_bus: PrivateBus, connect: Connect) -> None:
    connection = await connect()
    waiting = asyncio.create_task(connection.wait_connected())
    private_bus.kill()
    await connection._gone.wait()
    late = asyncio.create_task(connection.wait_connected())
    await asyncio.sleep(0)
    await connection.close()
    with pytest.raises(BusLost, match="closed"):
        await late
    await waiting


async def test_a_frozen_bus_is_a_call_that_is_not_answered_in_time(
    private_bus: PrivateBus, client: Connection
) -> None:
    private_bus.freeze()
    with pytest.raises(CallTimedOut):
        await client.call("org.freedesktop.DBus", "/", "org.freedesktop.DBus", "GetId", timeout_s=0.01)
    private_bus.thaw()
    assert client.connected
