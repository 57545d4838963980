"""The keeper of one shard: takes its news one at a time, moves it by the tables, writes it down, tells it."""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from typing import Any

from llmgwd.bus.connection import BusLost, CallTimedOut
from llmgwd.model.lifecycle import (
    ACTIVITIES,
    ENDING,
    SERVING,
    Activity,
    Fact,
    IllegalFact,
    Phase,
    State,
    after,
    is_terminal,
    public,
)
from llmgwd.supervisor.record import Changes, Record, to_json
from llmgwd.supervisor.running import Running
from llmgwd.supervisor.serving import await_engine, await_requests, watch_health
from llmgwd.supervisor.shard import News, Shard
from llmgwd.supervisor.starting import open_gates, start_scope
from llmgwd.supervisor.stopping import empty_scope
from llmgwd.supervisor.watching import watch_process

log = logging.getLogger(__name__)

_DO: Mapping[Activity, Callable[[Shard], Coroutine[Any, Any, None]]] = {
    Activity.START_SCOPE: start_scope,
    Activity.OPEN_GATES: open_gates,
    Activity.AWAIT_ENGINE: await_engine,
    Activity.WATCH_HEALTH: watch_health,
    Activity.AWAIT_REQUESTS: await_requests,
    Activity.EMPTY_SCOPE: empty_scope,
}
# What is left of an engine that ended by itself has no requests to finish.
_ABORT_S = 10.0
_AGAIN_S = 1.0


class Keeper:
    """`changed(shard, before)` is called after each change; `before`: the state that was left, if one was."""

    def __init__(self, shard: Shard, changed: Callable[[Shard, State | None], None]) -> None:
        self.shard = shard
        self._changed = changed
        self._doing: dict[Activity, asyncio.Task[None]] = {}
        self._watches: set[asyncio.Task[None]] = set()
        self._watched: set[str] = set()
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[None] | None = None
        shard.announce = lambda: self._tell(None)

    @property
    def record(self) -> Record:
        return self.shard.record

    def launch(self) -> None:
        """Begins, or goes on where the record stands."""
        if self.record.phase in {Phase.PENDING, Phase.DRAINED_PENDING}:
            self.shard.tell(Fact.TURN_CAME, "held at the gate")
        self._task = self._loop.create_task(self._run(), name=f"keeper of {self.record.id}")

    def adopt(self) -> None:
        """Takes over the processes of a shard that was running before this daemon."""
        shard = self.shard
        shard.adopted = True
        for name, pid in shard.record.pids.items():
            status = shard.world.records.status_path(shard.name, name)
            shard.running[name] = Running.adopt(name, status, pid, shard.record.control_group)

    async def wait(self) -> None:
        """Returns when the shard is terminal and everything is said."""
        if self._task is not None:
            await asyncio.shield(self._task)

    async def drain(self) -> None:
        await self._ask(Fact.DRAIN_ASKED, "drained", Changes())

    async def stop(self, limit_s: float, drain_s: float) -> None:
        """Returns when the stop has begun. A shorter limit than that of a stop under way takes over."""
        record, until = self.record, time.monotonic() + drain_s
        if record.phase is Phase.FINISHING:
            limit_s = min(limit_s, record.stop_limit_s)
        if record.phase in SERVING and drain_s > 0 and record.plan.http is not None:
            changes = Changes(stop_asked=True, stop_limit_s=limit_s, finish_until=until)
            await self._ask(Fact.DRAINING_STOP_ASKED, "finishing requests", changes)
        elif record.phase is not Phase.FINISHING or drain_s <= 0:
            await self._ask(Fact.STOP_ASKED, "stopping", Changes(stop_asked=True, stop_limit_s=limit_s))
        self._hasten(limit_s, until)

    async def close(self) -> None:
        """The daemon ends: everything is let go, nothing is stopped."""
        tasks = [*self._doing.values(), *self._watches, *([self._task] if self._task else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for running in self.shard.running.values():
            running.release()

    async def _ask(self, fact: Fact, reason: str, changes: Changes) -> None:
        if is_terminal(self.record.phase):
            return
        taken: asyncio.Future[None] = self._loop.create_future()
        self.shard.inbox.put_nowait(News(fact, reason, changes, taken))
        await taken

    def _hasten(self, limit_s: float, finish_until: float) -> None:
        """A stop that was under way before, or came first, ends when the shorter of both is over."""
        record, now = self.record, time.monotonic()
        if record.phase is Phase.FINISHING:
            until = min(record.finish_until, finish_until)
            self.shard.note(keep=True, finish_until=until, stop_limit_s=min(record.stop_limit_s, limit_s))
        elif record.phase in ENDING and now + limit_s < record.stop_until:
            self.shard.note(keep=True, stop_until=now + limit_s, stop_limit_s=limit_s)
            self.shard.limit_changed.set()

    async def _run(self) -> None:
        self._arrange()
        while not is_terminal(self.record.phase):
            news = await self.shard.inbox.get()
            try:
                await self._take(news)
            except IllegalFact:
                log.exception("shard %s: a fault of llmgwd, nothing was changed by it", self.record.id)
            finally:
                _answer(news)
        self._finish()
        while not self.shard.inbox.empty():
            _answer(self.shard.inbox.get_nowait())

    async def _take(self, news: News) -> None:
        shard, before = self.shard, self.record
        moved = after(before.phase, news.fact) if news.fact else None
        # An order that comes too late has no say; what has happened is true all the same.
        is_late_order = news.taken is not None and not moved
        record = before if is_late_order else replace(before, **news.changes)
        if moved:
            record = replace(record, phase=moved, state=public(moved, before.state), reason=news.reason)
            record = replace(record, **_limits(record, before.phase))
            if is_terminal(moved) and record.killed and not record.exit_signal:
                record = replace(record, exit_signal="SIGKILL")
        shard.record = record
        if shard.record == before and news.fact:
            return
        # At once: what it would still say of the phase that is over would go for news of this one.
        self._leave()
        # That its turn has come is not worth a write: until its scope is known a shard begins again anyhow.
        saved = news.fact is Fact.TURN_CAME or await self._save()
        if not saved and moved in {Phase.WAITING, Phase.DRAINED_WAITING}:
            # Nothing may run that a restarted daemon would not find in the record.
            shard.record = before
            await self._take(News(Fact.START_REFUSED, "StateNotSaved: the record could not be written"))
            return
        self._tell(before.state if before.state is not shard.record.state else None)
        self._arrange()

    def _tell(self, before: State | None) -> None:
        try:
            self._changed(self.shard, before)
        except Exception:  # whoever listens must not cost an engine its keeper
            log.exception("shard %s: its change could not be told", self.record.id)

    async def _save(self) -> bool:
        shard = self.shard
        try:
            await shard.world.write(shard.name, to_json(shard.record))
        except OSError as error:
            log.warning("shard %s: its record could not be written: %s", shard.record.id, error)
            return False
        return True

    def _arrange(self) -> None:
        """Runs what belongs to the phase, and nothing else."""
        for activity in self._leave() - self._doing.keys():
            self._doing[activity] = self._loop.create_task(self._do(activity))
        self._watch_processes()

    def _leave(self) -> frozenset[Activity]:
        """Ends what does not belong to the phase, and gives what does."""
        wanted = ACTIVITIES.get(self.record.phase, frozenset())
        for activity in self._doing.keys() - wanted:
            self._doing.pop(activity).cancel()
        return wanted

    async def _do(self, activity: Activity) -> None:
        while True:
            try:
                await _DO[activity](self.shard)
            except (BusLost, CallTimedOut) as error:
                # A lost bus or a missed deadline is never an outcome: look again, go on from what is there.
                log.warning("shard %s: %s is begun again: %s", self.record.id, activity, error)
                await self.shard.world.scopes.wait_reachable()
            except Exception:  # a fault of ours must not leave an engine without its keeper
                log.exception("shard %s: %s failed and is begun again", self.record.id, activity)
                await asyncio.sleep(_AGAIN_S)
            else:
                return

    def _watch_processes(self) -> None:
        for name, running in self.shard.running.items():
            if name not in self._watched:
                self._watched.add(name)
                away = self.shard.adopted and not running.is_alive
                watch = self._loop.create_task(watch_process(self.shard, running, away=away))
                self._watches.add(watch)
                watch.add_done_callback(self._watches.discard)

    def _finish(self) -> None:
        for running in self.shard.running.values():
            running.release()
        self.shard.note_pid(0)


def _answer(news: News) -> None:
    if news.taken is not None and not news.taken.done():
        news.taken.set_result(None)


def _limits(record: Record, before: Phase) -> Changes:
    """How long the end that begins now may take."""
    if record.phase not in ENDING or before is record.phase:
        return Changes()
    limit = record.spec.stop_timeout_s
    if record.phase is Phase.ABORTING:
        limit = min(limit, _ABORT_S)
    elif record.stop_asked:
        limit = record.stop_limit_s
    return Changes(stop_limit_s=limit, stop_until=time.monotonic() + limit)
