"""All shards of the node as they change: a stream of news that has no gap when the daemon is restarted."""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from llmgwd.bus.connection import Signal
from llmgwd.bus.names import from_path_label
from llmgwd.bus.values import plain
from llmgwd.client.errors import NAME, Unreachable, in_our_words
from llmgwd.client.node import MANAGER, PROPERTIES, ROOT, SHARD, NodeClient

_OBJECT_MANAGER: Final = "org.freedesktop.DBus.ObjectManager"

Shard = Mapping[str, object]
"""Properties by their names on the bus; of a shard that was just accepted perhaps no more than its state."""


@dataclass(frozen=True, slots=True)
class StateChanged:
    """`old` is empty for a new shard; `shard` is what was known of it at that moment."""

    id: str
    old: str
    new: str
    reason: str
    shard: Shard


@dataclass(frozen=True, slots=True)
class Changed:
    """Something besides the state is another, the reason say; `before` is what was known until then."""

    id: str
    before: Shard
    shard: Shard


@dataclass(frozen=True, slots=True)
class Removed:
    id: str


@dataclass(frozen=True, slots=True)
class DaemonLeft:
    """The shards go on; what happens to them is told when it is back."""


@dataclass(frozen=True, slots=True)
class DaemonCame:
    """What changed meanwhile follows."""


News = StateChanged | Changed | Removed | DaemonLeft | DaemonCame


class Watch:
    """What `news` tells, and `shards` as it has told them; subscribed as long as the client is connected."""

    def __init__(self, client: NodeClient) -> None:
        self.shards: dict[str, dict[str, object]] = {}
        self._client = client
        self._arrived: asyncio.Queue[Callable[[], None] | DaemonLeft | DaemonCame] = asyncio.Queue()
        self._maybe_older = 0  # how many of what arrived may have been sent before the list was
        self._told: deque[News] = deque()
        self._here = True

    async def begin(self) -> None:
        """Fill `shards`; what changes from here on is news. Raises Unreachable, or a Refusal to list them."""
        self._client.presence.on_change.append(self._presence_changed)
        await self._client.presence.follow()
        for handler, interface, member, path, arg0 in (
            (self._state_changed, MANAGER, "ShardStateChanged", ROOT, None),
            (self._properties_changed, PROPERTIES, "PropertiesChanged", None, SHARD),
            (self._interfaces_added, _OBJECT_MANAGER, "InterfacesAdded", ROOT, None),
            (self._interfaces_removed, _OBJECT_MANAGER, "InterfacesRemoved", ROOT, None),
        ):
            with in_our_words():
                await self._client.connection.subscribe(
                    partial(self._put, handler),
                    sender=NAME, interface=interface, member=member, path=path, arg0=arg0,
                )  # fmt: skip
        self.shards = await self._list()

    async def news(self, timeout_s: float | None = None) -> News | None:
        """Wait for the next; None when there is none in that time."""
        try:
            async with asyncio.timeout(timeout_s):
                while not self._told:
                    arrived = await self._arrived.get()
                    if isinstance(arrived, DaemonLeft | DaemonCame):
                        self._told.append(arrived)
                    else:
                        arrived()
                    self._maybe_older = max(self._maybe_older - 1, 0)
        except TimeoutError:
            return None
        news = self._told.popleft()
        if isinstance(news, DaemonCame):
            await self._catch_up()
        return news

    async def _catch_up(self) -> None:
        """Tell what would have been told if the daemon, or the bus, had been there all the time."""
        try:
            listed = await self._list()
        except Unreachable:
            return  # it has left again: that is the next news, and after it this comes once more
        before, self.shards = self.shards, listed
        for shard_id in before.keys() - listed.keys():
            self._told.append(Removed(shard_id))
        for shard_id, shard in listed.items():
            known = before.get(shard_id, {})
            old, new = str(known.get("State", "")), str(shard["State"])
            if old != new:
                self._told.append(StateChanged(shard_id, old, new, str(shard["Reason"]), dict(shard)))
            elif known != shard:
                self._told.append(Changed(shard_id, known, dict(shard)))

    async def _list(self) -> dict[str, dict[str, object]]:
        listed = await self._client.list_shards()
        self._maybe_older = self._arrived.qsize()
        return {str(shard["Id"]): shard for shard in listed}

    def _put(self, handler: Callable[[Signal], None], signal: Signal) -> None:
        self._arrived.put_nowait(partial(handler, signal))

    def _presence_changed(self, here: bool) -> None:
        if here != self._here:
            self._here = here
            self._arrived.put_nowait(DaemonCame() if here else DaemonLeft())

    def _state_changed(self, signal: Signal) -> None:
        shard_id, old, new, reason = signal.body
        shard = self.shards.get(shard_id, {"Id": shard_id, "State": ""})
        if self._maybe_older and shard["State"] != old:
            return  # it is older: it does not start where the list has the shard
        self.shards[shard_id] = shard = shard | {"State": new, "Reason": reason}
        self._told.append(StateChanged(shard_id, old, new, reason, dict(shard)))

    def _properties_changed(self, signal: Signal) -> None:
        shard_id = _id_of(signal.path)
        shard = self.shards.get(shard_id)
        if shard is None or not shard["State"]:
            return
        before, changes = dict(shard), plain(signal.body[1])
        shard |= changes | {"State": before["State"]}
        # what comes with another state is told with it: where that comes from is in a signal of its own
        if shard != before and changes.get("State", before["State"]) == before["State"]:
            self._told.append(Changed(shard_id, before, dict(shard)))

    def _interfaces_added(self, signal: Signal) -> None:
        path, interfaces = signal.body
        if SHARD in interfaces:
            self.shards.setdefault(_id_of(path), {**plain(interfaces[SHARD]), "State": ""})

    def _interfaces_removed(self, signal: Signal) -> None:
        path, interfaces = signal.body
        if SHARD in interfaces and self.shards.pop(_id_of(path), None) is not None:
            self._told.append(Removed(_id_of(path)))


def _id_of(path: str) -> str:
    return from_path_label(path.rpartition("/")[2])
