"""After a restart of the daemon: what became of each recorded shard, told from what is there."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

from llmgwd.model.lifecycle import ENDING, Phase, State, is_terminal
from llmgwd.supervisor.record import Record
from llmgwd.supervisor.starting import ready_until

# The engine's gate was opened, whatever the record had time to say.
_STARTED: Mapping[Phase, Phase] = {
    Phase.GATED: Phase.LOADING,
    Phase.WAITING: Phase.LOADING,
    Phase.DRAINED_GATED: Phase.DRAINED_LOADING,
    Phase.DRAINED_WAITING: Phase.DRAINED_LOADING,
}


@dataclass(frozen=True, slots=True)
class Found:
    """The record to go on with, and whether there are processes, or their ends, to take over."""

    record: Record
    adopted: bool


def examine(record: Record, *, boot_id: str, engine_status: str, alive_grace_s: float) -> Found:
    """What became of the shard of `record`.

    `engine_status` is what the engine's exit file says (host/gate.py). Whatever ran goes on, or its keeper
    finds that it has ended; what never ran an engine starts again.
    """
    if is_terminal(record.phase):
        return Found(record, adopted=False)
    if record.boot_id != boot_id:
        return Found(_rebooted(record), adopted=False)
    ran = bool(record.invocation_id) and engine_status != "closed"
    if record.phase in ENDING:
        return Found(record, adopted=True)
    if not ran:
        return Found(_again(record), adopted=False)
    phase = _STARTED.get(record.phase, record.phase)
    if phase is record.phase:
        return Found(record, adopted=True)
    return Found(
        replace(
            record,
            phase=phase,
            state=State.LOADING if phase is Phase.LOADING else State.DRAINING,
            started_us=record.started_us or time.time_ns() // 1000,
            ready_until=ready_until(record, alive_grace_s),
        ),
        adopted=True,
    )


def _rebooted(record: Record) -> Record:
    stopped = record.state is State.DRAINING
    return replace(
        record,
        phase=Phase.STOPPED if stopped else Phase.FAILED,
        state=State.STOPPED if stopped else State.FAILED,
        reason="host rebooted",
        exit_code=-1,
        exit_signal="",
    )


def _again(record: Record) -> Record:
    drained = record.state is State.DRAINING
    return replace(
        record,
        phase=Phase.DRAINED_PENDING if drained else Phase.PENDING,
        state=State.DRAINING if drained else State.PENDING,
        reason="started again by a new llmgwd",
        again=True,
        invocation_id="",
        control_group="",
        pids={},
        started_us=0,
    )
