"""The end of a process of a shard: who ended it, what it left behind, and what that means for the shard."""

import asyncio

from llmgwd.host.cgroup import Cgroup
from llmgwd.model.identifiers import ENGINE
from llmgwd.model.lifecycle import ENDING, SERVING, Fact
from llmgwd.supervisor import ending
from llmgwd.supervisor.reporting import report_health
from llmgwd.supervisor.running import Running
from llmgwd.supervisor.shard import Shard

_LOST_GATE_S = 1.0


async def watch_process(shard: Shard, running: Running, *, away: bool) -> None:
    """Tells of the end of `running`; with `away` it came while no daemon looked."""
    await running.wait_ended()
    # First of all: PID 1 removes the group as soon as it hears that nobody is left.
    oom_kills = Cgroup(shard.record.control_group).oom_kills()
    # Who ordered a stop while nobody listened is not known.
    stopped = not away and shard.record.phase not in ENDING and await _is_stopped_by_systemd(shard)
    if stopped:
        shard.tell_stopped_by_systemd()
    if running.name == ENGINE:
        await _engine_ended(shard, running, away=away, stopped=stopped, oom_kills=oom_kills)
    elif not stopped:
        _sidecar_ended(shard, running, oom_kills)
    running.reported.set()


async def _engine_ended(shard: Shard, running: Running, *, away: bool, stopped: bool, oom_kills: int) -> None:
    lost = False
    if shard.record.phase not in ENDING and not stopped and not running.status:
        lost = await _outlived_its_gate(shard)
    changes, words = ending.read(running.status, lost_gate=lost)
    changes["oom_kills"] = oom_kills or shard.record.oom_kills
    shard.note_pid(0)
    shard.note_health("unknown")
    reason = f"ended while llmgwd was away: {words}" if away else f"engine {words}"
    shard.tell(Fact.ENGINE_ENDED, reason, **changes)


def _sidecar_ended(shard: Shard, running: Running, oom_kills: int) -> None:
    _, words = ending.read(running.status, lost_gate=False)
    words = f"sidecar {running.name} {words}"
    if shard.record.phase in SERVING:
        report_health(shard.record, f"{words}, the engine goes on")
    else:
        words = f"{words} before the engine was up"
    shard.tell(Fact.SIDECAR_ENDED, words, oom_kills=oom_kills or shard.record.oom_kills)


async def _is_stopped_by_systemd(shard: Shard) -> bool:
    return await shard.world.scopes.is_stopped_by_others(shard.record.unit)


async def _outlived_its_gate(shard: Shard) -> bool:
    try:
        async with asyncio.timeout(_LOST_GATE_S):
            await Cgroup(shard.record.control_group).wait_empty()
    except TimeoutError:
        return True
    return False
