"""One life of a bus connection, from Hello to its loss, and the calls in flight on it."""

import asyncio
from collections.abc import Callable
from typing import Any

from llmgwd.bus.address import addresses
from llmgwd.bus.errors import BusLost, CallFailed
from llmgwd.bus.library import Message, MessageBus, MessageFlag, MessageType
from llmgwd.bus.values import body as settled

BUS = "org.freedesktop.DBus"
BUS_PATH = "/org/freedesktop/DBus"
CONNECT_S = 10.0
SEND_BUFFER = 16 * 1024 * 1024

Received = Callable[["Link", Message], None]


class Link:
    """A connection that was made and is not made again.

    `received` gets every signal and method call, `lost` is called once, when the bus has gone away.
    """

    def __init__(self, received: Received, lost: Callable[["Link", str], None]) -> None:
        self.lost = False
        self._received = received
        self._tell_lost = lost
        self._bus: MessageBus | None = None
        self._in_flight: dict[int, asyncio.Future[Message]] = {}

    @property
    def unique_name(self) -> str:
        """Our name on the bus, given by it."""
        return str(self._bus.unique_name) if self._bus is not None else ""

    @property
    def full_name(self) -> tuple[str, str]:
        """Which bus it is, and our name on it: no other connection ever has the same."""
        return (self._bus.bus_id, self.unique_name) if self._bus is not None else ("", "")

    async def open(self, where: str, *, large_buffer: bool) -> None:
        """Connects to the first address that answers; raises OSError with a sentence about the last one."""
        failure: OSError = FileNotFoundError("it has no address")
        for address in addresses(where):
            try:
                bus = MessageBus(address, self._ended)
                async with asyncio.timeout(CONNECT_S):
                    await bus.connect()
            except TimeoutError:
                failure = TimeoutError(f"{address} does not answer in {CONNECT_S:g} s")
            except (OSError, ValueError) as error:
                failure = ConnectionError(f"{address}: {error}")
            else:
                if large_buffer:
                    bus.enlarge_send_buffer(SEND_BUFFER)
                bus.add_message_handler(self._dispatch)
                self._bus = bus
                return
        raise failure

    def send(self, message: Message) -> None:
        """Queues a message; drops it when the bus has gone. Raises where it can't be marshalled."""
        if self._bus is not None:
            self._bus.send(message)

    async def exchange(self, message: Message) -> list[Any]:
        """Sends a call and returns the arguments of its answer. Raises CallFailed and BusLost."""
        if self._bus is None or self.lost:
            raise BusLost(f"the bus is away: {message.member} was not sent")
        message.serial = serial = self._bus.next_serial()
        answered = self._in_flight[serial] = asyncio.get_running_loop().create_future()
        try:
            self._bus.send(message)
            answer = await answered
        finally:
            # a late answer finds nobody, and leaves nothing behind
            del self._in_flight[serial]
        if answer.message_type is MessageType.ERROR:
            text = answer.body[0] if answer.signature.startswith("s") else ""
            raise CallFailed(answer.error_name or "", text)
        return list(answer.body)

    async def ask(self, member: str, signature: str = "", *body: object) -> list[Any]:
        """Calls a method of the bus itself. Raises CallFailed and BusLost."""
        return await self.exchange(call_message(BUS, BUS_PATH, BUS, member, signature, *body))

    async def close(self, drain_s: float = 0.0) -> None:
        """Closes the connection, after what is queued has left or the time is up. Not reported as lost."""
        if self._bus is not None:
            await self._bus.drained(drain_s)
            self._bus.close()
        self._fail_calls("the connection was closed")

    def _dispatch(self, message: Message) -> bool:
        if message.message_type in {MessageType.METHOD_RETURN, MessageType.ERROR}:
            answered = self._in_flight.get(message.reply_serial)
            if answered is not None and not answered.done():
                answered.set_result(message)
        else:
            self._received(self, message)
        return True  # the library itself has nothing to do with any message

    def _ended(self, error: Exception | None) -> None:
        reason = str(error) or type(error).__name__
        self._fail_calls(f"the bus was lost ({reason}) before the answer came")
        self._tell_lost(self, reason)

    def _fail_calls(self, text: str) -> None:
        self.lost = True
        for answered in self._in_flight.values():
            if not answered.done():
                answered.set_exception(BusLost(text))
                answered.exception()  # seen: its task may be cancelled before it looks


def call_message(
    destination: str,
    path: str,
    interface: str,
    member: str,
    signature: str,
    *body: object,
    interactive: bool = False,
) -> Message:
    """A call that never starts the one who is called. Raises where it is not one for D-Bus."""
    flags = MessageFlag.NO_AUTOSTART
    if interactive:
        flags |= MessageFlag.ALLOW_INTERACTIVE_AUTHORIZATION
    return Message(
        destination=destination,
        path=path,
        interface=interface,
        member=member,
        flags=flags,
        signature=signature,
        body=settled(body),
    )
