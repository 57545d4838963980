"""The daemon's D-Bus interface as typed calls, for programs beside it: the command line, the bridge.

Nothing here starts the daemon by asking. Values are plain Python; keys of properties are the bus's own.
"""

import asyncio
import time
from collections.abc import Mapping
from typing import Any, Final

from llmgwd.bus.connection import Connection
from llmgwd.bus.values import plain
from llmgwd.client.errors import NAME, Unanswered, Unreachable, in_our_words
from llmgwd.client.presence import Presence
from llmgwd.client.values import dictionary, text

ROOT: Final = "/org/llmgw/Node1"
MANAGER: Final = NAME + ".Manager"
SHARD: Final = NAME + ".Shard"
PROPERTIES: Final = "org.freedesktop.DBus.Properties"

PATIENCE_S: Final = 30.0
"""How long a daemon that went away in the middle of something is waited for; a restart takes about one."""

_ANSWER_S: Final = 25.0
_ANSWER_OF_A_PERSON_S: Final = 120.0  # somebody has to type a password first
_PAUSES_S: Final = (0.05, 0.2, 1.0)


class NodeClient:
    """Its methods raise a Refusal where the daemon says no, and Unreachable where it says nothing."""

    def __init__(self, connection: Connection, *, interactive: bool = False) -> None:
        """`interactive`: somebody is there whom polkit may ask for a password."""
        self.connection = connection
        self.presence = Presence(connection)
        self._interactive = interactive

    async def connect(self) -> None:
        """Connect to the bus; whether the daemon is on it shows at the first call. Raises Unreachable."""
        try:
            await self.connection.connect()
        except OSError as error:
            raise Unreachable(str(error)) from error

    async def close(self) -> None:
        await self.connection.close()

    async def start_shard(self, id: str, values: Mapping[str, object]) -> str:
        """Give the shard's object path."""
        reply = await self._insist("StartShard", "sa{sv}", text("id", id), _spec(values))
        return str(reply[0])

    async def plan_shard(self, id: str, values: Mapping[str, object]) -> list[dict[str, object]]:
        commands: list[dict[str, object]] = await self._ask(
            "PlanShard", "sa{sv}", text("id", id), _spec(values)
        )
        return commands

    async def stop_shard(
        self, id: str, *, drain_seconds: float | None = None, timeout_seconds: float | None = None
    ) -> None:
        """Returns when the stop has begun. None leaves it to the spec."""
        options = _stop_options(drain_seconds, timeout_seconds)
        await self._insist("StopShard", "sa{sv}", text("id", id), options)

    async def stop_all(
        self, *, drain_seconds: float | None = None, timeout_seconds: float | None = None
    ) -> None:
        """Returns when the stops have begun."""
        await self._insist("StopAll", "a{sv}", _stop_options(drain_seconds, timeout_seconds))

    async def drain_shard(self, id: str) -> None:
        await self._insist("DrainShard", "s", text("id", id))

    async def remove_shard(self, id: str) -> None:
        await self._do("RemoveShard", "s", text("id", id))

    async def get_shard(self, id: str) -> str:
        """Give the shard's object path."""
        path: str = await self._ask("GetShard", "s", text("id", id))
        return path

    async def read_shard(self, id: str) -> dict[str, object]:
        """Give the shard's properties."""
        return await self._properties(await self.get_shard(id), SHARD)

    async def list_shards(self) -> list[dict[str, object]]:
        """Give the properties of every shard, as they were at one moment."""
        shards: list[dict[str, object]] = plain(await self._insist("ListShards"))[0]
        return shards

    async def tail_shard(self, id: str, lines: int = 0) -> list[str]:
        """Give the last lines of output, oldest first; 0 means as many as the node's `log_lines`."""
        tail: list[str] = await self._ask("TailShard", "su", text("id", id), lines)
        return tail

    async def get_statistics(self) -> list[dict[str, object]]:
        statistics: list[dict[str, object]] = await self._ask("GetStatistics")
        return statistics

    async def list_orphans(self) -> list[dict[str, object]]:
        orphans: list[dict[str, object]] = await self._ask("ListOrphans")
        return orphans

    async def kill_orphan(self, unit: str) -> None:
        """Returns when the kill has begun."""
        await self._do("KillOrphan", "s", text("unit", unit))

    async def reload(self) -> None:
        await self._do("Reload")

    async def read_node(self) -> dict[str, object]:
        """Give the node's properties."""
        return await self._properties(ROOT, MANAGER)

    async def _properties(self, path: str, interface: str) -> dict[str, object]:
        reply = await self._call(path, PROPERTIES, "GetAll", "s", interface)
        properties: dict[str, object] = plain(reply[0])
        return properties

    async def _ask(self, member: str, signature: str = "", *body: object) -> Any:
        """Call a method that gives one value."""
        return plain((await self._call(ROOT, MANAGER, member, signature, *body))[0])

    async def _do(self, member: str, signature: str = "", *body: object) -> None:
        await self._call(ROOT, MANAGER, member, signature, *body)

    async def _insist(self, member: str, signature: str = "", *body: object) -> list[Any]:
        """Call a method that does nothing twice; asks again where the answer is lost."""
        deadline = time.monotonic() + PATIENCE_S
        pauses_s = iter(_PAUSES_S)
        while True:
            try:
                return await self._call(ROOT, MANAGER, member, signature, *body)
            except Unanswered:
                if time.monotonic() > deadline:
                    raise
            await self.presence.wait(deadline - time.monotonic())
            await asyncio.sleep(next(pauses_s, _PAUSES_S[-1]))

    async def _call(self, path: str, interface: str, member: str, signature: str, *body: object) -> list[Any]:
        timeout_s = _ANSWER_OF_A_PERSON_S if self._interactive else _ANSWER_S
        with in_our_words():
            return await self.connection.call(
                NAME, path, interface, member, signature, *body,
                timeout_s=timeout_s, interactive=self._interactive,
            )  # fmt: skip


def _spec(values: Mapping[str, object]) -> dict[str, Any]:
    from llmgwd.model.spec import KEYS  # noqa: PLC0415  (20 ms that no other call has to wait for)

    return dictionary(values, KEYS)


def _stop_options(drain_seconds: float | None, timeout_seconds: float | None) -> dict[str, Any]:
    given = {"drain_seconds": drain_seconds, "timeout_seconds": timeout_seconds}
    return dictionary(
        {key: seconds for key, seconds in given.items() if seconds is not None}, dict.fromkeys(given, "d")
    )
