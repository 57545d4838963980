"""Who wants to know what happens to shards."""

from llmgwd.model.lifecycle import State
from llmgwd.supervisor.shard import Shard


class Listener:
    """Who wants to know; the D-Bus face replaces these."""

    def added(self, shard: Shard) -> None:
        """A shard was accepted."""

    def removed(self, shard: Shard) -> None:
        """A shard was forgotten or replaced."""

    def changed(self, shard: Shard, before: State | None) -> None:
        """Something about it is different; `before` is the state that it left, if it did."""

    def ended(self, shard: Shard) -> None:
        """It has become terminal and is counted."""
