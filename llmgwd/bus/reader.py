"""What arrives from the bus, message by message, for dbus-next.

Its own reader goes on as long as anything arrives, so that one busy or malicious peer stops the whole loop,
and takes a message that it does not understand for the end of the connection.
"""

import asyncio
import io
import logging
import socket
import struct
from collections.abc import Callable
from typing import Any

MAX_CALL = 1024 * 1024
"""Bytes; the body of a longer call or signal is not looked at (9 MB of short texts take dbus-next 6 s)."""
A_TURN = 32 * 1024
"""Bytes that are looked at before the loop goes on with other things."""
_HEADER = 16
_CALL, _SIGNAL = 1, 4

log = logging.getLogger(__name__)


class Reader:
    """Cuts the stream of one socket into messages, a few in each turn of the loop."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sock: socket.socket,
        parse: Callable[[io.BytesIO], Any],
        process: Callable[[Any], None],
        fail: Callable[[Exception], None],
    ) -> None:
        """`parse` makes a message of bytes, `process` gets it, `fail` hears once why no more can come."""
        self._loop = loop
        self._sock = sock
        self._parse = parse
        self._process = process
        self._fail = fail
        self._unread = bytearray()
        self._later: asyncio.Handle | None = None
        self._stopped = False

    def readable(self) -> None:
        """Called by the loop when the socket has something."""
        try:
            data = self._sock.recv(256 * 1024)
        except BlockingIOError:
            return
        except OSError as error:
            self._fail(error)
            return
        if not data:
            self._fail(EOFError("the bus hung up"))
            return
        self._unread += data
        if self._later is None:
            self._take()

    def stop(self) -> None:
        """Looks at nothing more."""
        self._stopped = True
        self._unread.clear()
        if self._later is not None:
            self._later.cancel()

    def _take(self) -> None:
        """Passes on what is complete; the rest of it in later turns, and until then reads nothing new."""
        if self._later is not None:
            self._later = None
            self._loop.add_reader(self._sock, self.readable)
        taken = 0
        while not self._stopped and (length := self._next_length()) <= len(self._unread):
            if taken > A_TURN:
                self._loop.remove_reader(self._sock)
                self._later = self._loop.call_soon(self._take)
                return
            frame = bytes(memoryview(self._unread)[:length])
            del self._unread[:length]
            taken += length
            self._pass_on(frame)

    def _next_length(self) -> int:
        if len(self._unread) < _HEADER:
            return _HEADER
        body: int
        fields: int
        body, _, fields = struct.unpack_from(_order(self._unread) + "III", self._unread, 4)
        return _padded(_HEADER + fields) + body

    def _pass_on(self, frame: bytes) -> None:
        if len(frame) > MAX_CALL and frame[1] in {_CALL, _SIGNAL}:
            frame = _without_body(frame)
        try:
            message = self._parse(io.BytesIO(frame))
        except Exception:  # noqa: BLE001 dbus-next raises anything, and the next message may well be in order
            log.warning("cannot understand a message of %d bytes", len(frame))
            return
        self._process(message)


def _without_body(frame: bytes) -> bytes:
    """The message as if it had no arguments; its signature still tells that it had."""
    order = _order(frame)
    [fields] = struct.unpack_from(order + "I", frame, 12)
    return frame[:4] + struct.pack(order + "I", 0) + frame[8 : _padded(_HEADER + fields)]


def _order(frame: bytes | bytearray) -> str:
    return "<" if frame[0] == ord("l") else ">"


def _padded(length: int) -> int:
    return length + -length % 8
