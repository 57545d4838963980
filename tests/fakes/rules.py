"""How a fake service misbehaves: which calls it refuses, holds back, dies on, and what it does after them."""

import asyncio
import os
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

# The task that carries out a call sends its answer in the turn of the loop in which it ends.
_TURNS_TO_AN_ANSWER = 3


class RefusedError(Exception):
    """An answer with this name and text."""

    def __init__(self, error: str, text: str) -> None:
        super().__init__(text)
        self.error = error


class Rules:
    """By the members of an interface; `act` does what an order says."""

    def __init__(self, act: Callable[[dict[str, Any]], object]) -> None:
        self._act = act
        self._counts: Counter[str] = Counter()
        self._waiting: dict[asyncio.Event, tuple[str, int]] = {}
        self._failures: dict[str, list[tuple[str, str]]] = defaultdict(list)
        self._deadly: set[str] = set()
        self._held: dict[str, asyncio.Event] = {}
        self._after: dict[str, list[dict[str, Any]]] = {}

    def fail(self, member: str, error: str, text: str) -> None:
        """The next call is refused."""
        self._failures[member].append((error, text))

    def die_on(self, member: str) -> None:
        """The next call kills this process."""
        self._deadly.add(member)

    def hold(self, member: str) -> None:
        """Calls are not answered from now on."""
        self._held[member] = asyncio.Event()

    def release(self, member: str) -> None:
        """The calls that were held back go on."""
        self._held.pop(member).set()

    def after(self, member: str, orders: list[dict[str, Any]]) -> None:
        """When the next call has been answered this is done."""
        self._after[member] = orders

    async def answered(self, member: str, times: int) -> None:
        """Returns when so many calls were answered, or held back for good."""
        event = asyncio.Event()
        self._waiting[event] = (member, times)
        self._count(member, 0)
        await event.wait()
        del self._waiting[event]

    async def apply(self, member: str) -> None:
        """Before a call is carried out."""
        if member in self._deadly:
            os._exit(9)
        if member in self._held:
            self._count(member)
            await self._held[member].wait()
        if self._failures[member]:
            raise RefusedError(*self._failures[member].pop(0))
        self._later(_TURNS_TO_AN_ANSWER, member, self._after.pop(member, []))

    def _later(self, turns: int, member: str, orders: list[dict[str, Any]]) -> None:
        if turns:
            asyncio.get_running_loop().call_soon(self._later, turns - 1, member, orders)
            return
        self._count(member)
        for order in orders:
            self._act(order)

    def _count(self, member: str, more: int = 1) -> None:
        self._counts[member] += more
        for event, (awaited, times) in self._waiting.items():
            if self._counts[awaited] >= times:
                event.set()
