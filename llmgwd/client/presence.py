"""Whether the daemon is on the bus, and the news of its coming and going."""

import asyncio
from collections.abc import Callable
from typing import Final

from llmgwd.bus.connection import Connection, Signal
from llmgwd.bus.errors import BusLost, CallTimedOut
from llmgwd.client.errors import NAME, Unanswered, Unreachable, in_our_words

_DBUS: Final = "org.freedesktop.DBus"


class Presence:
    """Known from `follow` on; a lost bus is a daemon that has left."""

    def __init__(self, connection: Connection) -> None:
        self.on_change: list[Callable[[bool], None]] = []
        self._connection = connection
        self._here = asyncio.Event()
        self._follows = False

    @property
    def here(self) -> bool:
        return self._connection.connected and self._here.is_set()

    async def follow(self) -> None:
        """From here on `on_change` is told. Raises Unanswered without a bus, a Refusal by the bus itself."""
        if not self._follows:
            with in_our_words():
                await self._connection.subscribe(
                    self._owner_changed, sender=_DBUS, interface=_DBUS, member="NameOwnerChanged", arg0=NAME
                )
            self._follows = True
            self._connection.on_reconnect.append(self._reconnected)
        await self._look()

    async def wait(self, timeout_s: float) -> None:
        """Return when the daemon is here. Raises Unreachable when it is not in that time."""
        try:
            async with asyncio.timeout(timeout_s):
                while not await self._is_followed():
                    await self._connection.wait_connected()
                await self._here.wait()
        except TimeoutError as error:
            raise Unreachable("it went away and did not come back") from error

    async def _is_followed(self) -> bool:
        try:
            await self.follow()
        except Unanswered:
            return False
        return True

    async def _reconnected(self) -> None:
        self._note(False)  # signals were missed, be it the same daemon or another
        await self._look()

    async def _look(self) -> None:
        try:
            reply = await self._connection.call(
                _DBUS, "/org/freedesktop/DBus", _DBUS, "NameHasOwner", "s", NAME
            )
        except (BusLost, CallTimedOut):
            self._note(False)  # asked again when the connection is back
        else:
            self._note(bool(reply[0]))

    def _owner_changed(self, signal: Signal) -> None:
        self._note(bool(signal.body[2]))

    def _note(self, here: bool) -> None:
        if here:
            self._here.set()
        else:
            self._here.clear()
        for tell in self.on_change:
            tell(here)
