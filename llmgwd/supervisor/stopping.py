"""The end of a shard: everything in its scope is asked, then killed, and the end is told when nobody is left.

1. gates that are still shut stay shut for ever;
2. with sidecars the engine is asked first, and has half of the time for it;
3. PID 1 asks all that is left (StopUnit), and kills it at the scope's own limit, also when this daemon dies;
4. at the shard's limit, which may be shorter, this daemon has them killed;
5. what outlives SIGKILL is reported; its claims stay held until it goes.
"""

import asyncio
import signal
import time
from collections.abc import Awaitable

from llmgwd.host import process
from llmgwd.host.cgroup import Cgroup
from llmgwd.model.lifecycle import Fact, Phase
from llmgwd.supervisor.shard import Shard

_STEP_S = 0.01
_UNKILLABLE_S = 5.0
_SHUT_GATES_S = 2.0
_ASKED = frozenset({"stopping", "finishing requests"})


async def empty_scope(shard: Shard) -> None:
    """Told by SCOPE_EMPTY: the scope is empty or absent, and every gate's end is known."""
    for running in shard.running.values():
        running.shut()
    gone = asyncio.ensure_future(_wait_gone(shard))
    try:
        await _ask_engine_first(shard)
        if await _is_ours(shard):
            # A signal that arrives before a program has replaced its shell would be lost.
            opened = [running for running in shard.running.values() if running.opened]
            await asyncio.gather(*(running.program_pid() for running in opened))
            await shard.world.scopes.stop(shard.record.unit)
        await _or_limit(shard, gone)
        if not gone.done():
            await _kill(shard, gone)
        await gone
    finally:
        gone.cancel()
    shard.tell(Fact.SCOPE_EMPTY, _reason(shard))


async def _ask_engine_first(shard: Shard) -> None:
    record, engine = shard.record, shard.engine
    if record.phase is not Phase.STOPPING or not shard.has_sidecars or engine is None:
        return
    if not engine.is_alive or not engine.opened or await shard.world.scopes.is_stopped_by_others(record.unit):
        return
    if not record.terminated:
        shard.note(keep=True, terminated=True)
        await engine.terminate()
    await _or_limit(shard, engine.wait_ended(), share=0.5)


async def _or_limit(shard: Shard, wanted: Awaitable[None], share: float = 1.0) -> None:
    """Waits for `wanted`, at most until this share of the stop's limit is over; the limit may shrink."""
    future = asyncio.ensure_future(wanted)
    while not future.done():
        shard.limit_changed.clear()
        record = shard.record
        left = record.stop_until - (1 - share) * record.stop_limit_s - time.monotonic()
        if left <= 0:
            break
        changed = asyncio.ensure_future(shard.limit_changed.wait())
        try:
            await asyncio.wait({future, changed}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        finally:
            changed.cancel()
    if share < 1 and not future.done():
        future.cancel()


async def _kill(shard: Shard, gone: "asyncio.Future[None]") -> None:
    shard.note(keep=True, killed=True)
    if await _is_ours(shard):
        await shard.world.scopes.kill(shard.record.unit, signal.SIGKILL)
    await asyncio.wait({gone}, timeout=_UNKILLABLE_S)
    if gone.done():
        return
    reason = shard.record.reason
    shard.unkillable = tuple(
        f"pid {pid} ({process.state(pid)})" for pid in Cgroup(shard.record.control_group).pids()
    )
    shard.note(reason="unkillable: " + ", ".join(shard.unkillable))
    await gone
    shard.note(reason=reason)


async def _is_ours(shard: Shard) -> bool:
    """Whether the scope of this name is this run's: another one is never touched."""
    record = shard.record
    scope = await shard.world.scopes.find(record.unit)
    if scope is None:
        return False
    if record.invocation_id:
        return scope.invocation_id == record.invocation_id
    ours = {pid.pid for running in shard.running.values() if (pid := running.identity)}
    return bool(ours) and set(Cgroup(scope.control_group).pids()) <= ours


async def _wait_gone(shard: Shard) -> None:
    await asyncio.gather(*(running.reported.wait() for running in shard.running.values()))
    if shard.record.control_group:
        await Cgroup(shard.record.control_group).wait_empty()
        return
    # The start never got as far as to know its scope; PID 1 may still be making it, and would leave it empty.
    scopes, unit = shard.world.scopes, shard.record.unit
    while (scope := await scopes.find(unit)) is not None:
        try:
            async with asyncio.timeout(_SHUT_GATES_S):
                await Cgroup(scope.control_group).wait_empty()
        except TimeoutError:
            return  # somebody else's: no gate that we shut lives so long
        await scopes.stop(unit)
        await asyncio.sleep(_STEP_S)


def _reason(shard: Shard) -> str:
    record = shard.record
    if record.phase is Phase.ABORTING:
        return record.reason
    if record.reason == "being stopped by systemd":
        return "stopped by systemd"
    if record.reason not in _ASKED:
        return record.reason
    return f"did not stop in {record.stop_limit_s:g} s, killed" if record.killed else "stopped"
