"""All shards of this node: which may be started, which is found by its id, what all of them amount to."""

import asyncio
import contextlib
import logging
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from dataclasses import replace

from llmgwd.engines.plan import Plan
from llmgwd.host.gate import read_status
from llmgwd.host.scope_names import scope_name
from llmgwd.model.errors import (
    Busy,
    EngineUnavailable,
    InvalidSpec,
    LimitExceeded,
    NoSuchOrphan,
    NoSuchShard,
    ResourceBusy,
    StateNotSaved,
    Unkillable,
    WrongState,
)
from llmgwd.model.identifiers import ENGINE
from llmgwd.model.lifecycle import TERMINAL, State
from llmgwd.model.spec import ShardSpec
from llmgwd.supervisor import ending, reporting
from llmgwd.supervisor.adoption import examine
from llmgwd.supervisor.keeper import Keeper
from llmgwd.supervisor.listener import Listener
from llmgwd.supervisor.orphans import Orphan, find_orphans
from llmgwd.supervisor.planning import Planner, check_same
from llmgwd.supervisor.ports import World
from llmgwd.supervisor.record import NotARecord, Record, from_json, to_json
from llmgwd.supervisor.shard import Shard, record_name

log = logging.getLogger(__name__)

_TERMINAL_KEPT = 1000
_LONGEST_TAIL = 20
_SETTLE_S = 2.0


class Node:
    """`start` and `adopt` make keepers, everything else finds them by id."""

    def __init__(self, world: World, planner: Planner) -> None:
        self._world = world
        self._planner = planner
        self._keepers: dict[str, Keeper] = {}
        self._accepting: dict[str, Record] = {}
        self._held: dict[str, asyncio.Event] = {}
        self._orphans: set[str] = set()
        self._background: set[asyncio.Task[None]] = set()
        self.starts = 0
        self.ends: Counter[str] = Counter()
        self.listener = Listener()
        self.counts_changed = asyncio.Event()  # whoever waits for it clears it
        world.scopes.on_foreign_stop = self._stopped_by_systemd

    # Reading

    def shards(self) -> tuple[Shard, ...]:
        return tuple(keeper.shard for keeper in self._keepers.values())

    def shard(self, id: str) -> Shard:
        return self._keeper(id).shard

    def counts(self) -> Mapping[State, int]:
        return Counter(keeper.record.state for keeper in self._keepers.values())

    async def plan(self, id: str, values: Mapping[str, object]) -> tuple[ShardSpec, Plan]:
        """What would be run, and in its warnings what this node would refuse.

        Raises InvalidSpec, LimitExceeded, EngineUnavailable as the planner does.
        """
        spec, plan = self._planner.plan(id, values)
        others = [one for one in self._live() if one.id != id]
        refused = await asyncio.to_thread(self._refusals, spec, plan, others)
        return spec, replace(plan, warnings=(*plan.warnings, *refused))

    async def tail(self, id: str, lines: int) -> list[str]:
        """Raises NoSuchShard, LimitExceeded, JournalUnavailable."""
        shard = self.shard(id)
        usual = self._planner.config.agent.log_lines
        if lines > usual * _LONGEST_TAIL:
            raise LimitExceeded(f"at most {usual * _LONGEST_TAIL} lines at once, asked for {lines}")
        return reporting.as_text(shard, await reporting.tail(shard, lines or usual))

    # Commanding

    async def start(self, id: str, values: Mapping[str, object]) -> Shard:
        """The shard, `pending` and recorded; the one that is there already where the spec is the same.

        Raises InvalidSpec, EngineUnavailable, ResourceBusy, SpecConflict, Busy, LimitExceeded, StateNotSaved.
        """
        spec, plan = self._planner.plan(id, values)
        async with self._hold(id):
            there = self._keepers.get(id)
            if there is not None and there.record.state not in TERMINAL:
                return _same(there, spec)
            if there is not None:
                await there.wait()  # it may still be writing its end into the record that is replaced
            await self._check_name_free(id)
            self._planner.check_node(spec)
            resolved = await asyncio.to_thread(self._world.launcher.resolve, spec, plan)
            record = self._new_record(id, spec, resolved, there)
            keeper = await self._accept(record, there)
        keeper.launch()
        return keeper.shard

    async def stop(self, id: str, *, drain_s: float | None, limit_s: float | None) -> None:
        """Returns when the stop has begun. Raises NoSuchShard, InvalidSpec, Unkillable."""
        await self._stop(self._keeper(id), drain_s, limit_s)

    async def stop_all(self, *, drain_s: float | None, limit_s: float | None) -> None:
        """The same for every live shard, at once; a limit above a shard's own counts as its own."""
        live = [keeper for keeper in self._keepers.values() if keeper.record.state not in TERMINAL]
        stops = [
            self._stop(
                keeper,
                drain_s,
                limit_s if limit_s is None else min(limit_s, keeper.record.spec.stop_timeout_s),
            )
            for keeper in live
        ]
        results = await asyncio.gather(*stops, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def drain(self, id: str) -> None:
        """Raises NoSuchShard, WrongState."""
        keeper = self._keeper(id)
        if keeper.record.state in TERMINAL:
            raise WrongState(f"shard {id} is {keeper.record.state}, only a live one can be drained")
        await keeper.drain()

    async def remove(self, id: str) -> None:
        """Raises NoSuchShard, WrongState, Unkillable."""
        async with self._hold(id):
            keeper = self._keeper(id)
            _check_killable(keeper)
            if keeper.record.state not in TERMINAL:
                raise WrongState(f"shard {id} is {keeper.record.state}, only a terminal one can be removed")
            await self._forget(keeper)

    async def kill_orphan(self, unit: str) -> None:
        """Returns when the stop has been ordered. Raises NoSuchOrphan."""
        if unit not in {scope.unit for scope in await self.orphans()}:
            raise NoSuchOrphan(f"{unit} is no orphan of this node")
        await self._world.scopes.stop(unit)

    async def orphans(self) -> tuple[Orphan, ...]:
        """Populated scopes of ours that no readable record describes."""
        scopes = await self._world.scopes.scopes()  # first: a shard that starts meanwhile is none
        found = find_orphans(scopes, self._live())
        self._orphans = {orphan.unit for orphan in found}
        return found

    # The daemon's life

    async def adopt(self, contents: Mapping[str, object], set_aside: Callable[[str], object]) -> None:
        """Takes over what the records of before describe; returns when each of them is in its true state."""
        records = []
        for name, content in contents.items():
            try:
                record = from_json(content)
                if record_name(record.unit) != name:
                    raise NotARecord(f"it is the record of {record.unit}")
            except NotARecord as error:
                log.error(
                    "record %s cannot be used and was set aside as %s: %s", name, set_aside(name), error
                )
                continue
            records.append(record)
        for record in sorted(records, key=lambda record: record.accepted_us):
            await self._adopt(record)
        for scope in await self.orphans():
            log.warning("scope %s has no record; it is left alone (llmgwctl orphans)", scope.unit)
        ended = [keeper for keeper in self._keepers.values() if keeper.shard.adopted and _has_ended(keeper)]
        if ended:
            await asyncio.wait([asyncio.ensure_future(keeper.wait()) for keeper in ended], timeout=_SETTLE_S)
        self._prune()

    async def close(self) -> None:
        """Lets every shard go on without us."""
        await asyncio.gather(*(keeper.close() for keeper in self._keepers.values()))
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)

    # Inside

    @contextlib.asynccontextmanager
    async def _hold(self, id: str) -> AsyncIterator[None]:
        """One start or removal of an id at a time."""
        while id in self._held:
            await self._held[id].wait()
        free = self._held[id] = asyncio.Event()
        try:
            yield
        finally:
            del self._held[id]
            free.set()

    def _refusals(self, spec: ShardSpec, plan: Plan, others: Sequence[Record]) -> list[str]:
        """Every one that a start would meet here, not the first alone. Blocks."""
        said = []
        for check in (
            lambda: self._world.launcher.resolve(spec, plan),
            lambda: self._planner.check_node(spec),
            lambda: self._planner.check_claims(plan, spec, others),
        ):
            try:
                check()
            except (EngineUnavailable, InvalidSpec, ResourceBusy) as refusal:
                said.append(str(refusal))
        return said

    def _keeper(self, id: str) -> Keeper:
        keeper = self._keepers.get(id)
        if keeper is None:
            raise NoSuchShard(f"no shard {id!r} on this node")
        return keeper

    def _live(self) -> list[Record]:
        known = [keeper.record for keeper in self._keepers.values() if keeper.record.state not in TERMINAL]
        return known + list(self._accepting.values())

    async def _check_name_free(self, id: str) -> None:
        unit = scope_name(id)
        for other in self._keepers.values():
            if other.record.unit == unit and other.record.id != id:
                raise InvalidSpec(f"id: its scope would be {unit}, which is that of shard {other.record.id}")
        if unit in self._orphans and unit in {scope.unit for scope in await self.orphans()}:
            raise Busy(f"shard {id}: {unit} is an orphan; see llmgwctl kill-orphan")

    def _new_record(self, id: str, spec: ShardSpec, plan: Plan, there: Keeper | None) -> Record:
        live = self._live()
        most = self._planner.config.agent.max_shards
        if len(live) >= most:
            raise LimitExceeded(f"this node takes at most {most} live shards")
        self._planner.check_claims(plan, spec, live)
        identity = self._world.launcher.identity(spec)
        return Record(
            id=id,
            spec=spec,
            plan=plan,
            unit=scope_name(id),
            boot_id=self._world.boot_id,
            uid=identity.uid if identity else os.geteuid(),
            accepted_us=time.time_ns() // 1000,
            reason="accepted",
            starts=there.record.starts + 1 if there else 1,
        )

    async def _accept(self, record: Record, there: Keeper | None) -> Keeper:
        self._accepting[record.id] = record
        shard = Shard(record, self._world)
        try:
            await self._world.write(shard.name, to_json(record))
        except OSError as error:
            raise StateNotSaved(f"shard {record.id} was not started: its record: {error.strerror}") from error
        finally:
            del self._accepting[record.id]
        if there is not None:
            self.listener.removed(there.shard)
        keeper = Keeper(shard, self._changed)
        self._keepers.pop(record.id, None)
        self._keepers[record.id] = keeper
        self.starts += 1
        log.info("shard %s: accepted", record.id, extra=reporting.fields(record))
        for warning in record.plan.warnings:
            log.warning("shard %s: %s", record.id, warning, extra=reporting.fields(record))
        self.listener.added(shard)
        self.counts_changed.set()
        return keeper

    async def _stop(self, keeper: Keeper, drain_s: float | None, limit_s: float | None) -> None:
        _check_killable(keeper)
        spec = keeper.record.spec
        if limit_s is not None and limit_s > spec.stop_timeout_s:
            raise InvalidSpec(
                f"timeout_seconds: got {limit_s:g}, "
                f"takes 0 to {spec.stop_timeout_s:g} (the spec's stop_timeout_s)"
            )
        await keeper.stop(
            spec.stop_timeout_s if limit_s is None else limit_s,
            spec.drain_timeout_s if drain_s is None else drain_s,
        )

    async def _adopt(self, record: Record) -> None:
        path = self._world.records.status_path(record_name(record.unit), ENGINE)
        found = examine(
            record,
            boot_id=self._world.boot_id,
            engine_status=read_status(path),
            alive_grace_s=self._world.timing.alive_grace_s,
        )
        shard = Shard(found.record, self._world)
        keeper = Keeper(shard, self._changed)
        self._keepers[record.id] = keeper
        if found.record != record:
            with contextlib.suppress(OSError):
                await self._world.write(shard.name, to_json(found.record))
        if found.adopted:
            keeper.adopt()
        if found.record.state is not record.state:
            self._changed(shard, record.state)
        if found.record.state not in TERMINAL:
            log.info(
                "shard %s: adopted, %s", record.id, found.record.state, extra=reporting.fields(found.record)
            )
            keeper.launch()

    def _changed(self, shard: Shard, before: State | None) -> None:
        self.listener.changed(shard, before)
        if before is None:
            return
        self.counts_changed.set()
        record = shard.record
        if record.state in TERMINAL:
            stopped = record.state is State.STOPPED
            self.ends[ending.cause(record.reason, record.exit_code, record.exit_signal, stopped)] += 1
            self.listener.ended(shard)
            self._prune()
        if record.state is State.FAILED:
            self._later(reporting.report_failure(shard, before))
        else:
            reporting.report_change(record, before)

    def _stopped_by_systemd(self, unit: str) -> None:
        for keeper in self._keepers.values():
            if keeper.record.unit == unit and keeper.record.state not in TERMINAL:
                keeper.shard.tell_stopped_by_systemd()

    def _prune(self) -> None:
        ended = [keeper for keeper in self._keepers.values() if keeper.record.state in TERMINAL]
        for keeper in ended[:-_TERMINAL_KEPT]:
            self._later(self._forget_later(keeper))

    async def _forget_later(self, keeper: Keeper) -> None:
        async with self._hold(keeper.record.id):
            if self._keepers.get(keeper.record.id) is keeper:
                await self._forget(keeper)

    async def _forget(self, keeper: Keeper) -> None:
        await keeper.wait()
        del self._keepers[keeper.record.id]
        self.listener.removed(keeper.shard)
        self.counts_changed.set()
        await asyncio.to_thread(self._world.records.remove, keeper.shard.name)

    def _later(self, what: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(what)
        self._background.add(task)
        task.add_done_callback(self._background.discard)


def _same(keeper: Keeper, spec: ShardSpec) -> Shard:
    record = keeper.record
    if record.state is State.DRAINING:
        raise Busy(f"shard {record.id} is draining")
    check_same(record.id, record.spec, spec)
    return keeper.shard


def _check_killable(keeper: Keeper) -> None:
    if keeper.shard.unkillable and keeper.record.state not in TERMINAL:
        raise Unkillable(f"shard {keeper.record.id} outlived SIGKILL: {', '.join(keeper.shard.unkillable)}")


def _has_ended(keeper: Keeper) -> bool:
    return not any(running.is_alive for running in keeper.shard.running.values())
