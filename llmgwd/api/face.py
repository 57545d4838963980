"""What the bus sees of the node: an object a shard, kept true as the node tells of changes."""

from collections.abc import Awaitable, Callable

from llmgwd.api import paths
from llmgwd.api.manager import Manager
from llmgwd.api.shard import ShardObject
from llmgwd.bus.connection import BusLost, CallTimedOut
from llmgwd.bus.objects import Objects
from llmgwd.host.about import About
from llmgwd.host.journal import JournalUnavailable
from llmgwd.model.errors import Internal, NotAllowed, Refusal
from llmgwd.model.lifecycle import State
from llmgwd.supervisor.listener import Listener
from llmgwd.supervisor.node import Node
from llmgwd.supervisor.shard import Shard

ACCESS_DENIED = "org.freedesktop.DBus.Error.AccessDenied"


class Face(Listener):
    """Everything that is exported. Nobody can ask before the service's name is owned."""

    def __init__(
        self, node: Node, about: About, objects: Objects, reload: Callable[[], Awaitable[None]]
    ) -> None:
        self._node = node
        self._about = about
        self._objects = objects
        self._shards: dict[str, ShardObject] = {}
        self._manager = Manager(node, about, self._shards.__getitem__, reload)
        objects.add(paths.ROOT, self._manager)
        node.listener = self

    def added(self, shard: Shard) -> None:
        record = shard.record
        shown = ShardObject(self._node, shard, lambda: self._about.management_address)
        self._shards[record.id] = shown
        shown.show()
        self._objects.add(paths.shard(record.id), shown)
        self._manager.emit("ShardStateChanged", record.id, "", record.state.value, record.reason)
        self._manager.changed("Starts", *self._claims(shard))

    def removed(self, shard: Shard) -> None:
        self._shards.pop(shard.record.id)
        self._objects.remove(paths.shard(shard.record.id))

    def changed(self, shard: Shard, before: State | None) -> None:
        shown = self._shards.get(shard.record.id)
        if shown is None:
            return
        shown.show()
        if before is None:
            return
        record = shard.record
        shown.announce(before)
        self._manager.emit("ShardStateChanged", record.id, before.value, record.state.value, record.reason)

    def ended(self, shard: Shard) -> None:
        self._manager.changed("Ends", *self._claims(shard))

    def looked_around(self, about: About) -> None:
        """The node may look different: its configuration was read again, or its network has changed."""
        self._about = about
        self._manager.show(about)
        for shown in self._shards.values():
            shown.show()

    def _claims(self, shard: Shard) -> tuple[str, ...]:
        return ("Gpus",) if shard.record.spec.gpus else ()


def error_of(error: BaseException) -> tuple[str, str] | None:
    """Name and text of an error that is meant for the caller; `None` for any other."""
    if isinstance(error, NotAllowed):
        return ACCESS_DENIED, f"AccessDenied: {error.text}"
    if isinstance(error, Refusal):
        return paths.ERROR + error.name, str(error)
    if isinstance(error, JournalUnavailable | BusLost | CallTimedOut):
        return paths.ERROR + Internal.__name__, str(Internal(str(error)))
    return None
