"""A peer that keeps no rules: it sends the bytes that a test made."""

import asyncio
import os

from llmgwd.bus.library import Message
from llmgwd.bus.link import call_message
from tests.bus.private_bus import PrivateBus


class RawClient:
    """A connection to the bus, authenticated, that knows nothing about messages."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._serial = 0

    @classmethod
    async def connect(cls, bus: PrivateBus) -> "RawClient":
        reader, writer = await asyncio.open_unix_connection(bus.address.removeprefix("unix:path="))
        writer.write(b"\0AUTH EXTERNAL " + str(os.getuid()).encode().hex().encode() + b"\r\n")
        assert (await reader.readline()).startswith(b"OK ")
        writer.write(b"BEGIN\r\n")
        client = cls(reader, writer)
        client.send(
            client.bytes_of(call_message(*["org.freedesktop.DBus", "/", "org.freedesktop.DBus"], "Hello", ""))
        )
        return client

    def bytes_of(self, message: Message) -> bytearray:
        self._serial += 1
        message.serial = self._serial
        return bytearray(message._marshall(False))

    def send(self, data: bytes | bytearray) -> None:
        self._writer.write(data)

    async def answers(self, last: bytes) -> bytes:
        """All that came, up to and including `last`."""
        return await self._reader.readuntil(last)

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()
