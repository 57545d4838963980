"""Names of hosts to addresses, asked for where a server that does not answer holds up nobody else.

getaddrinfo(3) blocks for as long as resolv.conf(5) says, and cannot be interrupted. The event loop's threads
are few, are wanted for records and logs, and are waited for when the daemon ends: these are none of them.
"""

import asyncio
import contextlib
import socket
import threading
from dataclasses import dataclass
from socket import AddressFamily
from typing import Any

from aiohttp.abc import AbstractResolver

from llmgwd.model.addresses import parsed


@dataclass(frozen=True, slots=True)
class Address:
    """As getaddrinfo has it. `host`: numbers, with a zone where one belongs to it."""

    host: str
    family: AddressFamily


class Resolver(AbstractResolver):
    """At most one question for a name at a time, however often it is asked for."""

    def __init__(self) -> None:
        self._asked: dict[str, asyncio.Future[tuple[Address, ...]]] = {}

    async def addresses(self, host: str) -> tuple[Address, ...]:
        """Raises OSError where there is none, UnicodeError for what can be no name."""
        if parsed(host) is not None:  # numbers: nobody is asked
            return _look_up(host)
        future = self._asked.get(host)
        if future is None:
            future = self._asked[host] = self._ask(host)
            future.add_done_callback(lambda done: self._answered(host, done))
        return await asyncio.shield(future)

    async def resolve(self, host: str, port: int = 0, family: int = AddressFamily.AF_UNSPEC) -> Any:
        """The same in aiohttp's words, of which its releases have different types."""
        return [
            {
                "hostname": host,
                "host": address.host,
                "port": port,
                "family": address.family,
                "proto": 0,
                "flags": socket.AI_NUMERICHOST,
            }
            for address in await self.addresses(host)
            if family in {AddressFamily.AF_UNSPEC, address.family}
        ]

    async def close(self) -> None:
        """Questions that are under way are left to themselves."""

    def _ask(self, host: str) -> "asyncio.Future[tuple[Address, ...]]":
        loop = asyncio.get_running_loop()
        future: asyncio.Future[tuple[Address, ...]] = loop.create_future()

        def ask() -> None:
            answer: tuple[Address, ...] | OSError | UnicodeError
            try:
                answer = _look_up(host)
            except (OSError, UnicodeError) as error:
                answer = error
            with contextlib.suppress(RuntimeError):  # the loop has ended, and nobody waits
                loop.call_soon_threadsafe(_tell, future, answer)

        threading.Thread(target=ask, name=f"look-up of {host}", daemon=True).start()
        return future

    def _answered(self, host: str, future: "asyncio.Future[tuple[Address, ...]]") -> None:
        del self._asked[host]
        if not future.cancelled():
            future.exception()  # whoever asked may have gone


def _look_up(host: str) -> tuple[Address, ...]:
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(Address(str(address[0]), family) for family, _, _, _, address in found))


def _tell(
    future: "asyncio.Future[tuple[Address, ...]]", answer: tuple[Address, ...] | OSError | UnicodeError
) -> None:
    if future.done():
        return
    if isinstance(answer, Exception):
        future.set_exception(answer)
    else:
        future.set_result(answer)
