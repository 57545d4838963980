"""From a running engine to one that serves, and while it does: readiness, health, requests in flight."""

import asyncio
import time

from llmgwd.engines.plan import Http
from llmgwd.model.lifecycle import Fact, Phase
from llmgwd.supervisor.reporting import report_health
from llmgwd.supervisor.shard import Shard

# Soon after the start an answer is looked for often; a refused connection costs microseconds.
_QUICK_S = 0.05
_QUICK_GROWTH = 1.1
_EAGER_S = 0.2
_EAGER_FOR_S = 300.0
_MISSES = 3
_REQUEST_STEP_S = 0.25
_LONGEST = 500
_UNPRINTABLE = "\N{REPLACEMENT CHARACTER}"


async def await_engine(shard: Shard) -> None:
    """The engine answers for its model, or stays alive where it serves nothing; not for ever."""
    await _show_pid(shard)
    http = shard.record.plan.http
    if http is None:
        await asyncio.sleep(_left(shard.record.ready_until) or 0)
        _ready(shard, "")
        return
    try:
        async with asyncio.timeout(_left(shard.record.ready_until)):
            await _until_it_answers(shard, http)
    except TimeoutError:
        # It may have come to serve, in time, while there was no daemon to ask.
        if not (shard.adopted and await _answers(shard, http)):
            limit = shard.record.spec.ready_timeout_s
            shard.tell(Fact.TIME_UP, f"not ready in {limit:g} s: {shard.record.reason}")
            return
    _ready(shard, _serves(http))


async def watch_health(shard: Shard) -> None:
    """Says whether an engine that was ready still answers; it only reports."""
    await _show_pid(shard)
    http = shard.record.plan.http
    if http is None:
        return
    misses, reason, complaint = 0, _serves(http), ""
    while True:
        obstacle = await _obstacle(shard, http)
        misses = misses + 1 if obstacle else 0
        if misses == _MISSES:
            reason, complaint = shard.record.reason, f"did not answer {_MISSES} times: {obstacle}"
            shard.note_health("failing", complaint)
            report_health(shard.record, complaint)
        elif not misses and shard.health == "failing":
            shard.note_health("ok", reason if shard.record.reason == complaint else None)
            report_health(shard.record, "answers again")
        elif not misses:
            shard.note_health("ok")
        await asyncio.sleep(shard.world.timing.health_interval_s)


async def await_requests(shard: Shard) -> None:
    """Twice in a row nobody is connected, or the time for it is over."""
    http = shard.record.plan.http
    quiet = 0
    while http is not None and quiet < 2 and time.monotonic() < shard.record.finish_until:
        quiet = quiet + 1 if await shard.world.probes.connections(http) == 0 else 0
        await asyncio.sleep(_REQUEST_STEP_S)
    shard.tell(Fact.REQUESTS_DONE, "stopping")


async def _show_pid(shard: Shard) -> None:
    if shard.engine is not None:
        shard.note_pid(await shard.engine.program_pid())


async def _until_it_answers(shard: Shard, http: Http) -> None:
    pause, since = _QUICK_S, time.monotonic()
    while not await _answers(shard, http):
        eager = time.monotonic() - since < _EAGER_FOR_S
        pause = min(pause * _QUICK_GROWTH, _EAGER_S) if eager else shard.world.timing.health_interval_s
        await asyncio.sleep(pause)


async def _answers(shard: Shard, http: Http) -> bool:
    obstacle = await _obstacle(shard, http)
    if obstacle:
        shard.note(reason=obstacle)
    return not obstacle


async def _obstacle(shard: Shard, http: Http) -> str:
    """What stands between the engine and serving its model, as a sentence; empty when nothing does."""
    record, begun = shard.record, time.monotonic()
    obstacle = await shard.world.probes.ask(
        http, record.control_group, verify_listener=record.spec.verify_listener
    )
    shard.probe_s = time.monotonic() - begun
    # It may be an engine's own words, which are shown on the bus and in terminals.
    return "".join(sign if sign.isprintable() else _UNPRINTABLE for sign in obstacle[:_LONGEST])


def _serves(http: Http) -> str:
    return f"serves {http.served_model}" if http.served_model else "serves"


def _ready(shard: Shard, reason: str) -> None:
    shard.note_health("ok" if shard.record.plan.http else "unknown")
    # A drained shard answers, too, and is never ready.
    ready_us = time.time_ns() // 1000 if shard.record.phase is Phase.LOADING else 0
    shard.tell(Fact.ENGINE_ANSWERED, reason, ready_us=ready_us)


def _left(until: float) -> float | None:
    return max(until - time.monotonic(), 0.0) if until else None
