"""One connection to a message bus that comes back when it is lost."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from llmgwd.bus import ownership
from llmgwd.bus.errors import UNKNOWN_OBJECT, BusLost, CallFailed, CallTimedOut, NameTaken
from llmgwd.bus.library import Message, MessageFlag, MessageType
from llmgwd.bus.link import Link, call_message
from llmgwd.bus.subscriptions import Signal, Subscription, Subscriptions
from llmgwd.bus.values import body as settled

if TYPE_CHECKING:
    from llmgwd.bus.objects import Objects

__all__ = ["BusLost", "CallFailed", "CallTimedOut", "Connection", "NameTaken", "Signal"]

IN_FLIGHT = 64
"""Calls; dbus-daemon's system bus refuses more than 128 of one connection (`max_replies_per_connection`)."""
ASK_S = 10.0
FIRST_DELAY_S, LAST_DELAY_S = 0.05, 1.0
log = logging.getLogger(__name__)


class Connection:
    """A connection to a bus, made again whenever it is lost, with its subscriptions and its name."""

    def __init__(self, address: str = "system", *, name: str = "", send_buffer: bool = True) -> None:
        """`address`: "system", "session" or a D-Bus address; `name`: the well-known name for `own_name`.

        `send_buffer` asks the kernel for a large one, so that bursts don't wait for the bus.
        """
        self.on_reconnect: list[Callable[[], Awaitable[None]]] = []
        """Awaited one after the other when the bus is back; cancelled when it is lost again meanwhile."""
        self.on_name_lost: Callable[[], None] = _nothing
        """Called when the bus is back and somebody else has the name, which is not asked for again."""
        self._where = address
        self._name = name
        self._keeps_name = False
        self._large_buffer = send_buffer
        self._link = Link(self._received, self._lost)
        self._former_name = ("", "")
        self._up = asyncio.Event()
        self._gone = asyncio.Event()
        self._closed = False
        self._keeper: asyncio.Task[None] | None = None
        self._free = asyncio.Semaphore(IN_FLIGHT)
        self._subscriptions = Subscriptions(self._ask)
        self._objects: Objects | None = None

    @property
    def connected(self) -> bool:
        """Whether calls can be made now."""
        return self._up.is_set() and not self._closed

    @property
    def unique_name(self) -> str:
        """Our own name on the bus, a new one each time it is back."""
        return self._link.unique_name

    async def connect(self) -> None:
        """Connects for the first time; from then on the connection is kept. Raises ConnectionError."""
        try:
            await self._link.open(self._where, large_buffer=self._large_buffer)
        except OSError as error:
            raise ConnectionError(f"cannot connect to {self._bus()}: {error}") from error
        if not self._link.lost:
            self._up.set()
        self._keeper = asyncio.create_task(self._keep())

    async def wait_connected(self) -> None:
        """Returns when calls can be made; raises BusLost when the connection was closed."""
        await self._up.wait()
        if self._closed:
            raise BusLost(f"the connection to {self._bus()} is closed")

    async def own_name(self) -> None:
        """Takes the well-known name, now and whenever the bus is back.

        Raises NameTaken, CallFailed (where the bus's policy forbids it), CallTimedOut and BusLost.
        """
        await self._take_name()
        self._keeps_name = True

    async def call(
        self,
        destination: str,
        path: str,
        interface: str,
        member: str,
        signature: str = "",
        *body: Any,
        timeout_s: float = 25.0,
        interactive: bool = False,
    ) -> list[Any]:
        """Calls a method and returns the arguments of its answer; never starts the one who is called.

        `timeout_s` includes the wait for one of 64 places in flight. `interactive`: a person may be asked
        for a password. Raises CallFailed, CallTimedOut, and BusLost, at once while the bus is away.
        """
        message = call_message(
            destination, path, interface, member, signature, *body, interactive=interactive
        )
        try:
            async with asyncio.timeout(timeout_s), self._free:
                if not self.connected:
                    raise BusLost(f"{self._bus()} is away: {member} was not sent")
                return await self._link.exchange(message)
        except TimeoutError:
            raise CallTimedOut(f"{destination} did not answer {member} in {timeout_s:g} s") from None

    def emit(self, path: str, interface: str, member: str, signature: str = "", *body: Any) -> None:
        """Sends a signal to whoever listens, without waiting; drops it while the bus is away.

        Raises where the body does not fit the signature.
        """
        if self.connected:
            self._link.send(Message.new_signal(path, interface, member, signature, settled(body)))

    async def subscribe(
        self,
        handler: Callable[[Signal], None],
        *,
        sender: str,
        interface: str,
        member: str,
        path: str | None = None,
        arg0: str | None = None,
    ) -> None:
        """Calls `handler` with each such signal of the present owner of `sender`, and of nobody else.

        Returns when the bus knows, even if it has to come back for that. Raises CallFailed, CallTimedOut,
        and BusLost where the connection was not made yet or is closed.
        """
        if self._keeper is None:
            raise BusLost(f"not connected to {self._bus()} yet")
        subscription = Subscription(
            handler=handler, sender=sender, interface=interface, member=member, path=path, arg0=arg0
        )
        try:
            await self._subscriptions.add(subscription)
        except BusLost:
            await self.wait_connected()
        except BaseException:
            self._subscriptions.remove(subscription)
            raise

    def serve(self, objects: "Objects") -> None:
        """Lets these objects answer the calls that arrive from now on, and send their signals."""
        self._objects = objects
        objects.served(self.emit)

    async def close(self) -> None:
        """Ends the calls that are being served, each with an answer, and then the connection, for good."""
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)
        if self._objects is not None:
            await self._objects.close()
        self._closed = True
        await self._link.close(drain_s=1.0)
        self._up.set()

    def _received(self, link: Link, message: Message) -> None:
        if message.message_type is MessageType.SIGNAL:
            self._subscriptions.received(message)
        elif self._objects is not None:
            self._objects.received(message, link.send)
        elif not message.flags & MessageFlag.NO_REPLY_EXPECTED:
            link.send(Message.new_error(message, UNKNOWN_OBJECT, "UnknownObject: there are no objects here"))

    def _lost(self, link: Link, reason: str) -> None:
        if link is not self._link:
            return
        if self._up.is_set():
            log.warning("lost %s: %s", self._bus(), reason)
        self._former_name = link.full_name
        self._up.clear()
        self._gone.set()

    async def _keep(self) -> None:
        """Comes back each time, and lets the others resume; stops them when the bus is lost again."""
        while True:
            await self._gone.wait()
            await self._come_back()
            again = asyncio.create_task(self._gone.wait())
            resuming = asyncio.create_task(self._resume())
            try:
                await asyncio.wait({again, resuming}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                again.cancel()
                resuming.cancel()
                await asyncio.gather(again, resuming, return_exceptions=True)

    async def _come_back(self) -> None:
        delay_s = FIRST_DELAY_S
        while True:
            self._gone.clear()
            self._link = Link(self._received, self._lost)
            try:
                await self._link.open(self._where, large_buffer=self._large_buffer)
                await self._restore()
            except (OSError, BusLost, CallFailed, CallTimedOut) as error:
                log.debug("cannot return to %s yet: %s", self._bus(), error)
                await self._link.close()
            if not self._link.lost:
                self._up.set()
                return
            await asyncio.sleep(delay_s)
            delay_s = min(2 * delay_s, LAST_DELAY_S)

    async def _restore(self) -> None:
        await self._subscriptions.restore()
        if not self._keeps_name:
            return
        try:
            await self._take_name()
        except NameTaken as taken:
            log.error("%s", taken)
            self._keeps_name = False
            self.on_name_lost()

    async def _resume(self) -> None:
        log.info("%s is back", self._bus())
        for resume in self.on_reconnect:
            try:
                await resume()
            except Exception:
                log.exception("cannot resume with %s", self._bus())

    async def _take_name(self) -> None:
        bus_id, former_name = self._former_name
        ghost = former_name if bus_id == self._link.full_name[0] else ""
        await ownership.take(self._ask, self._name, ghost)

    async def _ask(self, member: str, signature: str, *body: Any) -> list[Any]:
        """Calls the bus itself, also while it is only coming back."""
        try:
            async with asyncio.timeout(ASK_S):
                return await self._link.ask(member, signature, *body)
        except TimeoutError:
            raise CallTimedOut(f"{self._bus()} did not answer {member} in {ASK_S:g} s") from None

    def _bus(self) -> str:
        return (
            f"the {self._where} bus" if self._where in {"system", "session"} else f"the bus at {self._where}"
        )


def _nothing() -> None:
    """No one asked to be told."""
