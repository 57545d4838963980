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
        self._called = asyncio.Condition()
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

    def after(self, member: str, orders: list[dict[str, Any]]) -> None:
        """When the next call has been answered this is done."""
        self._after[member] = orders

    async def called(self, member: str, times: int) -> None:
        """Returns when the member was called so often."""
        async with self._called:
            await self._called.wait_for(lambda: self._counts[member] >= times)

    async def apply(self, member: str) -> None:
        """Before a call is carried out."""
        async with self._called:
            self._counts[member] += 1
            self._called.notify_all()
        if member in self._deadly:
            os._exit(9)
        if member in self._held:
            await self._held[member].wait()
        if self._failures[member]:
            raise RefusedError(*self._failures[member].pop(0))
        if member in self._after:
            self._later(self._after.pop(member), _TURNS_TO_AN_ANSWER)

    def _later(self, orders: list[dict[str, Any]], turns: int) -> None:
        if turns:
            asyncio.get_running_loop().call_soon(self._later, orders, turns - 1)
            return
        for order in orders:
            self._act(order)
