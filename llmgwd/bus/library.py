"""The one place that imports a D-Bus library: dbus-fast where it is installed, else dbus-next.

`MessageBus` is the library's, with what dbus-next 0.2.3 and dbus-fast 2.20 to 5.2 leave broken put right.
"""

import contextlib
import importlib
import os
import re
import socket
import sys
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from llmgwd.bus.address import socket_address
from llmgwd.bus.reader import Reader
from llmgwd.bus.writer import Writer

__all__ = [
    "NAME",
    "BusType",
    "Message",
    "MessageBus",
    "MessageFlag",
    "MessageType",
    "SignatureTree",
    "Variant",
]

_SO_SNDBUFFORCE = 32  # asm-generic/socket.h; the socket module has no name for it
_MAX_AUTH_LINE = 16 * 1024
_OLDEST_FAST = (2, 20)
"""Before, it sends a wrong length with every text that is not ASCII, and the bus hangs up (1.84, 2.0)."""
_BY_NAME = {"dbus-fast": "dbus_fast", "dbus-next": "dbus_next"}


def _load(name: str) -> types.ModuleType:
    package = _BY_NAME[name]
    # Both (dbus-fast before 5) import their GLib half where PyGObject is installed: 25 ms, and never used.
    sys.modules.setdefault(f"{package}.glib", types.ModuleType(f"{package}.glib"))
    importlib.import_module(f"{package}.aio")
    if name == "dbus-fast":
        version = importlib.import_module(f"{package}.__version__").__version__
        if tuple(int(number) for number in re.findall(r"\d+", version)[:2]) < _OLDEST_FAST:
            raise ImportError(f"dbus-fast {version} is too old, 2.20 is needed")
    return sys.modules[package]


def _choose() -> tuple[str, types.ModuleType]:
    forced = os.environ.get("LLMGWD_BUS_LIBRARY", "")
    if forced:
        if forced not in _BY_NAME:
            raise ImportError(f"LLMGWD_BUS_LIBRARY is {forced!r}, not one of {', '.join(_BY_NAME)}")
        return forced, _load(forced)
    try:
        return "dbus-fast", _load("dbus-fast")
    except ImportError:
        return "dbus-next", _load("dbus-next")


NAME: str
if TYPE_CHECKING:
    from dbus_fast import BusType, Message, MessageFlag, MessageType, SignatureTree, Variant

    NAME = "dbus-fast"
    _MessageBus: Any
else:
    NAME, _library = _choose()
    BusType, Message, MessageFlag = _library.BusType, _library.Message, _library.MessageFlag
    MessageType, Variant = _library.MessageType, _library.Variant
    SignatureTree = _library.SignatureTree
    _MessageBus = _library.aio.MessageBus


class MessageBus(_MessageBus):  # type: ignore[misc]
    """A connection to one bus address; when it is lost it is closed, and `on_lost` is called once.

    Messages leave through a `Writer`, `send` never waits. Nothing of the library's service or proxy
    classes is used: `add_message_handler` sees every message.
    """

    def __init__(self, address: str, on_lost: Callable[[Exception | None], None]) -> None:
        """Connects nothing yet; raises ValueError for an address that is not a UNIX socket's."""
        self.bus_id = ""
        """Which bus it is: another one after a restart of dbus-daemon, where unique names begin anew."""
        self._address = socket_address(address)
        self._on_lost: Callable[[Exception | None], None] | None = None
        self._reads: Reader | None = None
        self._writes: Writer | None = None
        self._library_connects = True
        try:
            super().__init__(bus_address=address)
        except OSError:
            self._close_socket()  # dbus-fast before 5 connects in the constructor, whatever we do
            raise
        self._tell_lost = on_lost

    def _setup_socket(self) -> None:
        """Called by the constructor of dbus-next, whose own blocks in connect(2)."""
        self._library_connects = False
        self._sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._sock.setblocking(False)
        self._stream = self._sock.makefile("rwb")
        self._fd = self._sock.fileno()

    async def connect(self) -> "MessageBus":
        """Connects, authenticates, says Hello. Raises OSError; then nothing is left open."""
        try:
            if not self._library_connects:
                await self._loop.sock_connect(self._sock, self._address)
            await super().connect()
        except OSError:
            self._shut()
            raise
        except Exception as error:
            # The libraries raise AuthError, EOFError, DBusError, AttributeError ... at a bus that says no.
            self._shut()
            raise ConnectionError(
                f"the bus refused the connection: {error or type(error).__name__}"
            ) from error
        except BaseException:
            self._shut()
            raise
        self._writes = Writer(self._loop, self._sock, self._finalize)
        self._on_lost = self._tell_lost
        return self

    def enlarge_send_buffer(self, size: int) -> None:
        """Lets the kernel hold `size` bytes that the bus has not read; less without CAP_NET_ADMIN."""
        try:
            self._sock.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, size)
        except PermissionError:
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, size)

    def send(self, msg: Message) -> Any:
        """Queues the message. Raises ValueError or another of the library's errors where it can't be sent.

        Replaces the library's writer, which takes a full socket for a broken one (dbus-next 0.2.3,
        dbus-fast to 5.2).
        """
        if self._writes is None or self._disconnected:
            return None
        if not msg.serial:
            msg.serial = self.next_serial()
        self._writes.put(msg._marshall(False))  # noqa: SLF001 there is no public one
        return None

    async def drained(self, timeout_s: float) -> None:
        """Returns when all queued messages have been taken by the kernel, or the time is up."""
        if self._writes is not None:
            await self._writes.drained(timeout_s)

    def close(self) -> None:
        """Closes the connection for good; `on_lost` is not called."""
        self._on_lost = None
        self._user_disconnect = True
        self._finalize(None)

    def _finalize(self, err: Exception | None = None) -> None:
        if self._disconnected:
            return
        if self._writes is not None:
            self._writes.stop()
        if self._reads is not None:
            self._reads.stop()
        super()._finalize(err)
        self._shut()
        if self._on_lost is not None:
            self._on_lost(err)

    def _shut(self) -> None:
        """Closes the socket, which the libraries leave open, and looks at the error nobody else awaits."""
        if self._sock is not None:
            self._loop.remove_reader(self._fd)
            self._loop.remove_writer(self._fd)
            self._close_socket()
        if self._disconnect_future.done() and not self._disconnect_future.cancelled():
            self._disconnect_future.exception()

    def _close_socket(self) -> None:
        with contextlib.suppress(OSError):
            self._stream.close()
        self._sock.close()

    async def _auth_readline(self) -> str:
        """One line of the server's; dbus-next and dbus-fast before 5 spin for ever when it hangs up."""
        line = bytearray()
        while not line.endswith(b"\r\n"):
            data = await self._loop.sock_recv(self._sock, 512)
            if not data:
                raise ConnectionError("the bus hung up during authentication")
            line += data
            if len(line) > _MAX_AUTH_LINE:
                raise ConnectionError("the bus sent an endless line during authentication")
        text = line[:-2].decode()
        if text.startswith("OK "):
            self.bus_id = text[3:]
        return text

    def _message_reader(self) -> None:
        """What the loop calls when something arrives, with dbus-next only."""
        if self._reads is None:
            unmarshaller = type(self._create_unmarshaller())
            self._reads = Reader(
                self._loop,
                self._sock,
                parse=lambda stream: unmarshaller(stream).unmarshall(),
                process=self._on_message,
                fail=self._finalize,
            )
            self._loop.add_reader(self._fd, self._reads.readable)
        self._reads.readable()
