"""What the daemon says of its shards in the journal, last words included."""

import asyncio
import logging

from llmgwd.host.journal import JournalUnavailable
from llmgwd.host.journal_reader import Selection
from llmgwd.host.journal_text import Line
from llmgwd.model.identifiers import journal_identifier
from llmgwd.model.lifecycle import State
from llmgwd.supervisor.record import Record
from llmgwd.supervisor.shard import Shard

log = logging.getLogger(__name__)

_LAST_WORDS = 10


def report_change(record: Record, before: State) -> None:
    """One line; that of a failure comes from `report_failure`, with the engine's last words."""
    why = f": {record.reason}" if record.reason else ""
    log.info("shard %s: %s -> %s%s", record.id, before, record.state, why, extra=fields(record))


def report_health(record: Record, words: str) -> None:
    """What does not change the state, and that somebody should see all the same."""
    log.warning("shard %s: %s", record.id, words, extra=fields(record))


async def report_failure(shard: Shard, before: State) -> None:
    """One entry with the last lines of output. Raises nothing: without a journal it is the sentence alone."""
    record = shard.record
    try:
        words = as_text(shard, await tail(shard, _LAST_WORDS))
    except JournalUnavailable as error:
        words = [f"(its output cannot be read: {error})"]
    text = "\n  ".join([f"shard {record.id}: {before} -> {record.state}: {record.reason}", *words])
    log.error("%s", text, extra=fields(record))


async def tail(shard: Shard, lines: int) -> list[Line]:
    """The last lines of this run's output, oldest first. Raises JournalUnavailable."""
    record = shard.record
    names = [process.name for process in record.plan.processes]
    selection = Selection(
        identifiers={journal_identifier(record.id, name): name for name in names},
        uids=frozenset({0, record.uid}),
        since_us=record.accepted_us,
        unit=record.unit,
    )

    def read() -> list[Line]:
        shard.world.synchronize()
        return shard.world.logs.tail(selection, lines)

    return await asyncio.to_thread(read)


def as_text(shard: Shard, lines: list[Line]) -> list[str]:
    """With the process's name where the shard has several."""
    if shard.has_sidecars:
        return [f"[{line.process}] {line.text}" for line in lines]
    return [line.text for line in lines]


def fields(record: Record) -> dict[str, str]:
    """What every line about a shard carries in the journal."""
    return {
        "LLMGW_SHARD": record.id,
        "LLMGW_REPLICA": record.spec.replica_id,
        "LLMGW_STATE": record.state,
    }
