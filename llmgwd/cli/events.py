"""`llmgwctl events`: each change of a shard that somebody may want to act upon, as it comes."""

import sys
import time
from argparse import Namespace
from typing import Final

from llmgwd.cli.answer import keyed, print_json_line
from llmgwd.cli.describe import because, state_word
from llmgwd.cli.reader import while_somebody_reads
from llmgwd.cli.terminal import one_line, tint
from llmgwd.client.node import NodeClient
from llmgwd.client.watch import Changed, DaemonCame, DaemonLeft, News, Removed, StateChanged, Watch
from llmgwd.model.lifecycle import State

# On its way to `ready` the reason tells the progress of a start, which waiting shows.
_SETTLED: Final = (State.READY, State.DRAINING)


async def events(client: NodeClient, arguments: Namespace) -> int:
    """Runs until it is interrupted; also while the daemon is away, whose return tells what was missed."""
    watch = Watch(client)
    await watch.begin()
    show = _for_programs if arguments.json else _for_people
    with while_somebody_reads():
        while True:
            news = await watch.news()
            if isinstance(news, DaemonLeft | DaemonCame):
                where = "is back" if isinstance(news, DaemonCame) else "went away, waiting for it"
                print(f"llmgwctl: llmgwd {where}", file=sys.stderr, flush=True)
            elif news is not None:
                show(news)


def _for_programs(news: News) -> None:
    """The shard's status, and what became of it; or that it was removed.

    `old` and `new` are of what the event is named after: of the state where that is `shard`.
    """
    if isinstance(news, StateChanged):
        print_json_line({"event": "shard", **keyed(news.shard), "old": news.old, "new": news.new})
    elif isinstance(news, Changed) and news.shard["State"] in _SETTLED:
        for what in ("Health", "Reason"):
            old, new = news.before.get(what), news.shard.get(what)
            if old != new:
                print_json_line({"event": what.lower(), **keyed(news.shard), "old": old, "new": new})
                return
    elif isinstance(news, Removed):
        print_json_line({"event": "removed", "id": news.id})


def _for_people(news: News) -> None:
    now = time.strftime("%H:%M:%S")
    if isinstance(news, StateChanged):
        change = f"{news.old} -> {news.new}" if news.old else news.new
        print(
            f"{now} {one_line(news.id)}: {tint(news.new, change)}{one_line(because(news.shard))}", flush=True
        )
    elif isinstance(news, Changed) and news.shard["State"] in _SETTLED:
        word, reason = state_word(news.shard), because(news.shard)
        if (word, reason) != (state_word(news.before), because(news.before)):
            print(f"{now} {one_line(news.id)}: {tint(word, word)}{one_line(reason)}", flush=True)
    elif isinstance(news, Removed):
        print(f"{now} {one_line(news.id)}: removed", flush=True)
