"""Peers that are careless or mean: none of them costs us the connection."""

import asyncio
import io
import itertools
import logging
import socket
import struct
from collections.abc import AsyncIterator

import pytest

from llmgwd.bus import reader
from llmgwd.bus.connection import CallFailed, Connection
from llmgwd.bus.library import NAME, Message, MessageType, Variant
from llmgwd.bus.link import call_message
from llmgwd.bus.reader import Reader
from tests.bus.example import MANAGER, Example
from tests.bus.private_bus import PrivateBus
from tests.bus.raw_client import RawClient

TYPE, FLAGS = 1, 2  # places in a message


@pytest.fixture
async def raw(private_bus: PrivateBus) -> AsyncIterator[RawClient]:
    client = await RawClient.connect(private_bus)
    yield client
    await client.close()


def echo(text: str) -> Message:
    return call_message(*MANAGER, "Echo", "sa{sv}", text, {})


@pytest.mark.parametrize("flags", [0, 2, 4, 6, 0x80, 0xFE])
async def test_a_call_with_any_flags_is_answered(example: Example, raw: RawClient, flags: int) -> None:
    name = example.connection.unique_name
    call = raw.bytes_of(echo("with flags"))
    call[FLAGS] = flags
    raw.send(call)
    assert b"with flags" in await raw.answers(b"with flags")
    assert (example.connection.connected, example.connection.unique_name) == (True, name)


@pytest.mark.parametrize("flags", [1, 3, 7, 0xFF])
async def test_a_call_that_wants_no_answer_with_any_flags_gets_none(
    example: Example, raw: RawClient, flags: int
) -> None:
    call = raw.bytes_of(echo("unanswered"))
    call[FLAGS] = flags
    raw.send(call)
    raw.send(raw.bytes_of(echo("answered")))
    assert b"unanswered" not in await raw.answers(b"\0answered")


async def test_a_message_of_no_known_kind_does_no_harm(example: Example, raw: RawClient) -> None:
    name = example.connection.unique_name
    message = raw.bytes_of(echo("unknown kind"))
    message[TYPE] = 5
    raw.send(message)
    raw.send(raw.bytes_of(echo("answered")))
    await raw.answers(b"\0answered")
    assert example.connection.unique_name == name


async def test_answers_and_signals_that_nobody_asked_for_do_no_harm(
    example: Example, client: Connection, raw: RawClient
) -> None:
    call = asyncio.create_task(example.connection.call(*MANAGER, "Hold"))
    await example.manager.entered.acquire()
    [serial] = example.connection._link._in_flight
    for kind in (MessageType.METHOD_RETURN, MessageType.ERROR):
        answer = Message(message_type=kind, reply_serial=serial, destination=Example.NAME, error_name="a.b.C")
        raw.send(raw.bytes_of(answer))
    lie = Message.new_signal("/org/freedesktop/DBus", "org.freedesktop.DBus", "NameOwnerChanged", "s", ["x"])
    lie.destination = Example.NAME
    raw.send(raw.bytes_of(lie))
    raw.send(raw.bytes_of(echo("answered")))
    await raw.answers(b"\0answered")
    assert not call.done()
    example.manager.release.set()
    assert await call == ["released"]


async def test_values_within_values_are_carried(example: Example, client: Connection) -> None:
    value = Variant("s", "x")
    for _ in range(50):
        value = Variant("v", value)
    assert await client.call(*MANAGER, "Echo", "sa{sv}", "", {"deep": value}) == ["", {"deep": value}]


async def test_a_call_of_several_megabytes_does_not_stop_the_service(
    example: Example, client: Connection
) -> None:
    text = "x" * (reader.MAX_CALL + 1)
    if NAME == "dbus-next":
        with pytest.raises(CallFailed, match="a call of Echo takes at most 1048576 bytes"):
            await client.call(*MANAGER, "Echo", "sa{sv}", text, {})
    else:  # fast enough to be let through
        assert await client.call(*MANAGER, "Echo", "sa{sv}", text, {}) == [text, {}]


async def test_an_answer_of_several_megabytes_is_read(example: Example, client: Connection) -> None:
    example.manager.values["Version"] = "x" * (3 * reader.MAX_CALL)
    [version] = await client.call(
        *MANAGER[:2], "org.freedesktop.DBus.Properties", "Get", "ss", MANAGER[2], "Version"
    )
    assert version.value == example.manager.values["Version"]


class Stream:
    """A reader at one end of a socket, and what it made of what was sent at the other."""

    def __init__(self) -> None:
        ours, self.theirs = socket.socketpair()
        ours.setblocking(False)
        self.theirs.setblocking(False)
        self.ours = ours
        self.frames: list[bytes] = []
        self.failed: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()
        self._came = asyncio.Semaphore(0)
        self.loop = asyncio.get_running_loop()
        self.reader = Reader(self.loop, ours, self.parse, self.process, self.failed.set_result)
        self.loop.add_reader(ours, self.reader.readable)

    def parse(self, stream: io.BytesIO) -> bytes:
        frame = stream.read()
        if frame.endswith(b"broken"):
            raise ValueError("broken")
        return frame

    def process(self, frame: bytes) -> None:
        self.frames.append(frame)
        self._came.release()

    async def read(self, count: int) -> list[bytes]:
        """All frames, when there are so many."""
        for _ in range(count):
            await self._came.acquire()
        return self.frames

    def close(self) -> None:
        self.reader.stop()
        self.loop.remove_reader(self.ours)
        self.ours.close()
        self.theirs.close()


@pytest.fixture
async def stream(nothing_left: None) -> AsyncIterator[Stream]:
    stream = Stream()
    yield stream
    stream.close()


def frame(body: bytes, fields: bytes = b"fields", kind: int = 2, order: str = "<") -> bytes:
    start = bytes([ord("l" if order == "<" else "B"), kind, 0, 1])
    head = start + struct.pack(order + "III", len(body), 7, len(fields)) + fields
    return head + bytes(-len(head) % 8) + body


async def test_messages_are_cut_apart_wherever_the_stream_was_cut(stream: Stream) -> None:
    sent = [frame(b""), frame(b"a"), frame(b"body" * 9, order=">"), frame(b"b", fields=b"")]
    for byte in b"".join(sent):
        stream.theirs.send(bytes([byte]))
        await asyncio.sleep(0)
    assert await stream.read(4) == sent


async def test_a_message_that_can_not_be_understood_is_left_out(
    stream: Stream, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    stream.theirs.send(frame(b"a") + frame(b"broken") + frame(b"b"))
    assert await stream.read(2) == [frame(b"a"), frame(b"b")]
    assert "cannot understand a message of 30 bytes" in caplog.text


async def test_of_a_call_that_is_too_long_only_the_head_is_looked_at(stream: Stream) -> None:
    sending = [frame(b"x" * (reader.MAX_CALL + 1), kind=kind) for kind in (1, 2, 3, 4)]
    task = asyncio.create_task(stream.loop.sock_sendall(stream.theirs, b"".join(sending)))
    heads = [frame(b"", kind=1), sending[1], sending[2], frame(b"", kind=4)]
    assert await stream.read(4) == heads
    await task


async def test_the_loop_goes_on_while_a_peer_floods_us(stream: Stream) -> None:
    one = frame(b"x" * 1000)
    task = asyncio.create_task(stream.loop.sock_sendall(stream.theirs, one * 5000))
    turns = []
    while len(stream.frames) < 5000:
        turns.append(len(stream.frames))
        await asyncio.sleep(0)
    await task
    most = max(after - before for before, after in itertools.pairwise(turns))
    assert most <= reader.A_TURN // len(one) + 1


async def test_the_end_of_the_stream_is_told_once(stream: Stream) -> None:
    stream.theirs.send(frame(b"a") + frame(b"b")[:-1])
    await stream.read(1)
    stream.theirs.shutdown(socket.SHUT_WR)
    error = await stream.failed
    stream.loop.remove_reader(stream.ours)
    assert (stream.frames, str(error)) == ([frame(b"a")], "the bus hung up")
