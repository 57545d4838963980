"""Waiting until shards are where they were wanted, or never will be."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from llmgwd.cli.progress import Progress, Shard, described
from llmgwd.client.errors import Unreachable
from llmgwd.client.node import PATIENCE_S, NodeClient
from llmgwd.client.presence import Presence
from llmgwd.client.watch import Changed, Removed, StateChanged, Watch
from llmgwd.model.lifecycle import TERMINAL, State

Verdict = Callable[[Shard | None], str | None]
"""Of a shard, None for one that was removed: "" when it is where it was wanted, a sentence when it never
will be, None when neither is known yet."""

_ORDER: Final = tuple(State)
_TICK_S: Final = 1.0


def reach(wanted: str) -> Verdict:
    """The shard is in this state."""

    def verdict(shard: Shard | None) -> str | None:
        if shard is None:
            return "it was removed"
        state = State(str(shard["State"]))
        if state == wanted:
            return ""
        passed = wanted not in TERMINAL and _ORDER.index(state) > _ORDER.index(State(wanted))
        return described(shard) if passed or state in TERMINAL else None

    return verdict


def end(shard: Shard | None) -> str | None:
    """The shard has ended, in whatever way."""
    if shard is None or shard["State"] in TERMINAL:
        return ""
    reason = str(shard["Reason"])
    return reason if reason.startswith("unkillable") else None


class TimeUp(Exception):  # noqa: N818  (named as the refusals are)
    """`still` are those that were waited for in vain, as they were last."""

    def __init__(self, still: Mapping[str, Shard]) -> None:
        super().__init__(", ".join(still))
        self.still = still


async def until(
    client: NodeClient,
    ids: Iterable[str],
    verdict: Verdict,
    progress: Progress,
    *,
    timeout_s: float | None = None,
    patience_s: float = PATIENCE_S,
) -> dict[str, str]:
    """Give the verdict on each shard. Progress shows all but those that never will be where they were wanted.

    Raises TimeUp, and Unreachable when the daemon goes away and is not back in `patience_s`.
    """
    watch = Watch(client)
    await watch.begin()
    waiting = _Waiting(verdict, progress)
    try:
        for shard_id in ids:
            waiting.look(shard_id, watch.shards.get(shard_id))
        if waiting.still:
            async with asyncio.timeout(timeout_s):
                await waiting.follow(watch, client.presence, patience_s)
    except TimeoutError as error:
        raise TimeUp(waiting.still) from error
    finally:
        progress.close()
    return waiting.outcomes


class _Waiting:
    """Which shards are still waited for, and what became of the others."""

    def __init__(self, verdict: Verdict, progress: Progress) -> None:
        self.still: dict[str, Shard] = {}
        self.outcomes: dict[str, str] = {}
        self._verdict = verdict
        self._progress = progress

    def look(self, id: str, shard: Shard | None) -> None:
        text = self._verdict(shard)
        if text is not None:
            self.outcomes[id] = text
            self.still.pop(id, None)
        elif shard is not None:
            self.still[id] = shard
            self._progress.saw(id, shard)
        if text == "":
            if shard is None:
                self._progress.removed(id)
            else:
                self._progress.finished(id, shard)

    async def follow(self, watch: Watch, presence: Presence, patience_s: float) -> None:
        clock = asyncio.get_running_loop().time
        last_here_s = clock()
        while self.still:
            await self._progress.tick(self.still)
            news = await watch.news(min(_TICK_S, patience_s))
            if isinstance(news, StateChanged | Changed) and news.id in self.still:
                self.look(news.id, news.shard)
            elif isinstance(news, Removed) and news.id in self.still:
                self.look(news.id, None)
            if presence.here:
                last_here_s = clock()
            elif clock() - last_here_s > patience_s:
                raise Unreachable("it went away and did not come back")
