"""What leaves for the bus: a queue that is written as fast as the socket takes it, and never faster."""

import asyncio
import contextlib
import socket
from collections.abc import Callable

MAX_MESSAGE = 32 * 1024 * 1024
"""Bytes; the system bus hangs up on a longer message (dbus-daemon's system.conf, `max_message_size`)."""
MAX_QUEUED = 96 * 1024 * 1024
"""Bytes; a bus that has not read as much is taken for lost, before memory is."""
_AT_ONCE = 256 * 1024


class Writer:
    """The queue of one socket; `fail(error)` is called when the bus can't be written to."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, sock: socket.socket, fail: Callable[[Exception], None]
    ) -> None:
        self._loop = loop
        self._sock = sock
        self._fail = fail
        self._queued = bytearray()
        self._flush_soon: asyncio.Handle | None = None
        self._waits_for_room = False
        self._empty = asyncio.Event()
        self._empty.set()

    def put(self, message: bytes | bytearray) -> None:
        """Queues a marshalled message; all of one turn of the loop leave together. Raises ValueError."""
        if len(message) > MAX_MESSAGE:
            raise ValueError(f"a message of {len(message)} bytes is more than the bus takes ({MAX_MESSAGE})")
        if len(self._queued) + len(message) > MAX_QUEUED:
            self._fail(BufferError(f"the bus has not read {len(self._queued)} bytes"))
            return
        self._queued += message
        self._empty.clear()
        if self._flush_soon is None and not self._waits_for_room:
            self._flush_soon = self._loop.call_soon(self._flush)

    async def drained(self, timeout_s: float) -> None:
        """Returns when the queue is empty, or the time is up."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._empty.wait()

    def stop(self) -> None:
        """Forgets what is queued and leaves the loop alone."""
        if self._flush_soon is not None:
            self._flush_soon.cancel()
        if self._waits_for_room:
            self._loop.remove_writer(self._sock)
            self._waits_for_room = False
        self._queued.clear()
        self._empty.set()

    def _flush(self) -> None:
        self._flush_soon = None
        try:
            while self._queued:
                with memoryview(self._queued)[:_AT_ONCE] as piece:
                    sent = self._sock.send(piece)
                del self._queued[:sent]
        except BlockingIOError:
            if not self._waits_for_room:
                self._waits_for_room = True
                self._loop.add_writer(self._sock, self._flush)
            return
        except OSError as error:
            self._fail(error)
            return
        self._empty.set()
        if self._waits_for_room:
            self._waits_for_room = False
            self._loop.remove_writer(self._sock)
