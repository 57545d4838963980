"""All shards of the node as they change: a stream of news that has no gap when the daemon is restarted."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from llmgwd.bus.connection import Signal
from llmgwd.bus.errors import BusLost, CallTimedOut
from llmgwd.bus.names import from_path_label
from llmgwd.client import MANAGER, PROPERTIES, ROOT, SHARD, NodeClient
from llmgwd.client_errors import NAME, Unanswered, Unreachable
from llmgwd.client_values import plain

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
    """Something besides the state is another: the reason, say."""

    id: str
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
    """What `news` tells and `shards` holds; subscribed for as long as the client is connected."""

    def __init__(self, client: NodeClient) -> None:
        self.shards: dict[str, dict[str, object]] = {}
        self._client = client
        self._queue: asyncio.Queue[News] = asyncio.Queue()
        self._told: dict[str, str] = {}  # the state of each shard by the news so far
        self._here = True

    async def begin(self) -> None:
        """Fill `shards`; what changes from here on is news. Raises Unreachable, or a Refusal to list them."""
        await self._client.presence.follow()
        try:
            await self._subscribe()
        except (BusLost, CallTimedOut) as error:
            raise Unanswered("the bus went away") from error
        self._merge(await self._client.list_shards())
        # Every signal so far is in `shards`, which is therefore as new as the newest of them.
        self._told = {shard_id: str(shard["State"]) for shard_id, shard in self.shards.items()}
        self._queue = asyncio.Queue()
        self._client.presence.on_change.append(self._presence_changed)

    async def news(self, timeout_s: float | None = None) -> News | None:
        """Wait for the next; None when there is none in that time."""
        try:
            async with asyncio.timeout(timeout_s):
                news = await self._queue.get()
        except TimeoutError:
            return None
        if isinstance(news, DaemonCame):
            await self._catch_up()
        return news

    async def _subscribe(self) -> None:
        for handler, interface, member, path, arg0 in (
            (self._state_changed, MANAGER, "ShardStateChanged", ROOT, None),
            (self._properties_changed, PROPERTIES, "PropertiesChanged", None, SHARD),
            (self._interfaces_added, _OBJECT_MANAGER, "InterfacesAdded", ROOT, None),
            (self._interfaces_removed, _OBJECT_MANAGER, "InterfacesRemoved", ROOT, None),
        ):
            await self._client.connection.subscribe(
                handler, sender=NAME, interface=interface, member=member, path=path, arg0=arg0
            )

    async def _catch_up(self) -> None:
        """Queue what would have been told if the daemon, or the bus, had been there all the time."""
        try:
            listed = await self._client.list_shards()
        except Unreachable:
            return  # it has left again: that is the next news, and this comes once more after it
        self._merge(listed)
        for shard_id, shard in self.shards.items():
            old, new = self._told.get(shard_id, ""), str(shard["State"])
            if old != new:
                self._tell(StateChanged(shard_id, old, new, str(shard["Reason"]), dict(shard)))
        for shard_id in self._told.keys() - self.shards.keys():
            self._tell(Removed(shard_id))

    def _merge(self, listed: list[dict[str, object]]) -> None:
        """What a signal has said since the daemon came is at least as new as the list."""
        for shard in listed:
            shard_id = str(shard["Id"])
            self.shards[shard_id] = shard | self.shards.get(shard_id, {})

    def _tell(self, news: News) -> None:
        if isinstance(news, StateChanged):
            self._told[news.id] = news.new
        elif isinstance(news, Removed):
            self._told.pop(news.id, None)
        self._queue.put_nowait(news)

    def _presence_changed(self, here: bool) -> None:
        if here == self._here:
            return
        self._here = here
        if here:
            self.shards.clear()
        self._tell(DaemonCame() if here else DaemonLeft())

    def _state_changed(self, signal: Signal) -> None:
        shard_id, old, new, reason = signal.body
        shard = self.shards.setdefault(shard_id, {"Id": shard_id})
        shard |= {"State": new, "Reason": reason}
        self._tell(StateChanged(shard_id, old, new, reason, dict(shard)))

    def _properties_changed(self, signal: Signal) -> None:
        shard_id = _id_of(signal.path)
        shard = self.shards.setdefault(shard_id, {"Id": shard_id})
        shard |= plain(signal.body[1])
        if "State" in shard:  # of a shard that is not even listed yet there is nothing to tell
            self._tell(Changed(shard_id, dict(shard)))

    def _interfaces_added(self, signal: Signal) -> None:
        path, interfaces = signal.body
        if SHARD in interfaces:
            self.shards[_id_of(path)] = plain(interfaces[SHARD])

    def _interfaces_removed(self, signal: Signal) -> None:
        path, interfaces = signal.body
        if SHARD in interfaces:
            shard_id = _id_of(path)
            self.shards.pop(shard_id, None)
            self._tell(Removed(shard_id))


def _id_of(path: str) -> str:
    return from_path_label(path.rpartition("/")[2])
