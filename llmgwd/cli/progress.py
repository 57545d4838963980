"""What is shown on standard error while something is waited for."""

import shutil
import sys
import time
from collections.abc import Mapping
from typing import Protocol

from llmgwd.cli.describe import because
from llmgwd.cli.terminal import cut, is_terminal, one_line
from llmgwd.client.errors import Unreachable
from llmgwd.client.node import NodeClient
from llmgwd.model.errors import Refusal

Shard = Mapping[str, object]

_ERASE = "\r\x1b[K"
_LOG_EVERY_S = 1.0


class Progress(Protocol):
    def saw(self, id: str, shard: Shard) -> None:
        """The shard, as it is now."""

    def finished(self, id: str, shard: Shard) -> None:
        """It is where it was wanted; `saw` has not been told."""

    def removed(self, id: str) -> None:
        """It is where it was wanted: nowhere."""

    async def tick(self, waiting: Mapping[str, Shard]) -> None:
        """Time goes by for these."""

    def close(self) -> None:
        """Leave the output as others expect it."""


def progress(client: NodeClient) -> Progress:
    return RewrittenLine(client) if is_terminal(sys.stderr) else LinePerChange()


def described(shard: Shard) -> str:
    return f"{shard['State']}{because(shard)}"


def remark(text: str) -> None:
    """A line beside what was asked for."""
    print(one_line(text), file=sys.stderr, flush=True)


class LinePerChange:
    """For logs and programs: a line for each state."""

    def __init__(self) -> None:
        self._states: dict[str, object] = {}

    def saw(self, id: str, shard: Shard) -> None:
        if self._states.get(id) != shard["State"]:
            self._states[id] = shard["State"]
            remark(f"{id}: {described(shard)}")

    def finished(self, id: str, shard: Shard) -> None:
        self.saw(id, shard)

    def removed(self, id: str) -> None:
        remark(f"{id}: removed")

    async def tick(self, waiting: Mapping[str, Shard]) -> None:
        pass

    def close(self) -> None:
        pass


class RewrittenLine:
    """For a terminal: one line with state, reason, seconds and the last line of the engine's output."""

    def __init__(self, client: NodeClient) -> None:
        self._client = client
        self._since = time.monotonic()
        self._log = ""
        self._log_at = 0.0
        self._tells_log = True
        self._written = ""

    def saw(self, id: str, shard: Shard) -> None:
        pass

    def finished(self, id: str, shard: Shard) -> None:
        self._write(one_line(f"{id}: {shard['State']} after {self._seconds()} s{because(shard)}") + "\n")

    def removed(self, id: str) -> None:
        self._write(one_line(f"{id}: removed after {self._seconds()} s") + "\n")

    async def tick(self, waiting: Mapping[str, Shard]) -> None:
        if len(waiting) == 1:
            ((shard_id, shard),) = waiting.items()
            line = f"{shard_id}: {shard['State']}, {self._seconds()} s{because(shard)}"
            if log := await self._last_line(shard_id):
                line += f": {log}"
        else:
            line = f"{len(waiting)} shards, {self._seconds()} s: "
            line += ", ".join(f"{shard_id} {shard['State']}" for shard_id, shard in waiting.items())
        self._write(cut(one_line(line), shutil.get_terminal_size().columns - 1))

    def close(self) -> None:
        self._write("")

    async def _last_line(self, id: str) -> str:
        now = time.monotonic()
        if self._tells_log and now >= self._log_at + _LOG_EVERY_S:
            self._log_at = now
            try:
                self._log = "".join(await self._client.tail_shard(id, 1))
            except Refusal:
                self._tells_log = False  # not every user may read logs
            except Unreachable:
                pass  # whoever waits is told by the news
        return self._log

    def _seconds(self) -> int:
        return int(time.monotonic() - self._since)

    def _write(self, text: str) -> None:
        if text != self._written:
            self._written = text
            sys.stderr.write(_ERASE + text)
            sys.stderr.flush()
