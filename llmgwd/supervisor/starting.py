"""From a plan to a running engine: gates, then their scope, then the gates are opened in order.

Each activity can be begun again at any point (the bus was lost, the daemon was replaced): it goes on from
what it finds.
"""

import asyncio
import time

from llmgwd.bus.library import Variant
from llmgwd.host.cgroup import Cgroup
from llmgwd.host.process import NoSuchProcess, control_group
from llmgwd.host.systemd import ScopeExists, ScopeRefused
from llmgwd.model.addresses import host_and_port
from llmgwd.model.cpus import bitmask
from llmgwd.model.errors import EngineUnavailable, StateNotSaved
from llmgwd.model.identifiers import ENGINE
from llmgwd.model.lifecycle import Fact
from llmgwd.model.spec import ShardSpec
from llmgwd.supervisor.record import Record
from llmgwd.supervisor.shard import Shard

_STEP_S = 0.01
_LEFTOVER_S = 5.0
_RENDEZVOUS_STEP_S = 0.25
_INFINITY = 2**64 - 1


async def start_scope(shard: Shard) -> None:
    """Every process exists at its shut gate, and all are in the scope."""
    async with shard.world.starts:
        if shard.record.again:
            await _clear(shard)
        try:
            for process in shard.record.plan.processes:
                if process.name not in shard.running:
                    shard.launch(process)
        except (EngineUnavailable, StateNotSaved) as refusal:
            shard.tell(Fact.START_REFUSED, str(refusal))
            return
        except OSError as error:
            shard.tell(Fact.START_REFUSED, f"EngineUnavailable: cannot start process: {error}")
            return
        try:
            await _enter(shard)
        except ScopeRefused as refusal:
            shard.tell(Fact.START_REFUSED, f"ScopeFailed: {refusal}")


async def open_gates(shard: Shard) -> None:
    """One after the other; what waits for other ranks is held until their ports are open."""
    for process in shard.record.plan.processes:
        running = shard.running[process.name]
        for target in process.waits_for:
            if not running.opened and not await _rendezvous(shard, process.name, target):
                return
        if running.opened:
            continue
        running.open()
        if process.name == ENGINE:
            shard.tell(
                Fact.ENGINE_STARTED,
                "the engine was started",
                started_us=time.time_ns() // 1000,
                ready_until=ready_until(shard.record, shard.world.timing.alive_grace_s),
            )


def ready_until(record: Record, alive_grace_s: float) -> float:
    """When an engine that starts now has to answer, or counts as ready where it serves nothing; 0: never."""
    if record.plan.http is None:
        return time.monotonic() + alive_grace_s
    timeout = record.spec.ready_timeout_s
    return time.monotonic() + timeout if timeout else 0.0


def scope_properties(record: Record, slice: str) -> dict[str, Variant]:
    """What the scope gets from the spec; see systemd.scope(5), systemd.resource-control(5)."""
    spec = record.spec
    properties = {
        "Slice": Variant("s", slice),
        # At shutdown the daemon goes first (units/llmgw-engines.target).
        "Before": Variant("as", ["llmgw-engines.target"]),
        "TimeoutStopUSec": Variant("t", int(spec.stop_timeout_s * 1_000_000)),
        "TasksMax": Variant("t", spec.tasks_max or _INFINITY),
    }
    if spec.memory_max is not None:
        properties["MemoryMax"] = Variant("t", spec.memory_max)
    if spec.cpu_weight is not None:
        properties["CPUWeight"] = Variant("t", spec.cpu_weight)
    if spec.allowed_cpus:
        properties["AllowedCPUs"] = Variant("ay", bitmask(spec.allowed_cpus))
    if spec.allowed_memory_nodes:
        properties["AllowedMemoryNodes"] = Variant("ay", bitmask(spec.allowed_memory_nodes))
    return properties


async def _enter(shard: Shard) -> None:
    record = shard.record
    pids = {name: pid for name, running in shard.running.items() if (pid := running.identity)}
    await _make_scope(shard, tuple(pid.pid for pid in pids.values()))
    try:
        group = control_group(pids[ENGINE].pid)
    except NoSuchProcess as error:
        raise ScopeRefused("its processes were killed before it was started") from error
    invocation = await shard.world.scopes.invocation_id(record.unit)
    if not group.endswith("/" + record.unit) or not invocation:
        raise ScopeRefused(f"{record.unit} was stopped while it was started")
    shard.tell(
        Fact.SCOPE_STARTED,
        "held at the gate",
        invocation_id=invocation,
        control_group=group,
        pids=pids,
    )


async def _make_scope(shard: Shard, ours: tuple[int, ...]) -> None:
    """The name may be taken: by this very start before a bus was lost, by a leftover, or by a stranger."""
    record, scopes = shard.record, shard.world.scopes
    until = time.monotonic() + _LEFTOVER_S
    while True:
        try:
            await scopes.start(
                record.unit,
                ours,
                description=f"LLM shard {record.id}: {record.spec.engine} {record.spec.model}".strip(),
                properties=scope_properties(record, shard.world.slice),
            )
        except ScopeExists as error:
            scope = await scopes.find(record.unit)
            inside = set(Cgroup(scope.control_group).pids()) if scope else set()
            if inside and inside <= set(ours):
                return
            if inside:
                raise ScopeRefused(f"{record.unit} exists and holds other processes") from error
            if time.monotonic() > until:
                raise ScopeRefused(f"{record.unit} exists, is empty and does not go") from error
            if scope:
                await scopes.stop(record.unit)
            await asyncio.sleep(_STEP_S)
        else:
            return


async def _clear(shard: Shard) -> None:
    """What a half start of before left in the scope: nothing of it had run the engine."""
    scope = await shard.world.scopes.find(shard.record.unit)
    if scope is not None and not shard.running:
        await shard.world.scopes.stop(scope.unit)
        await Cgroup(scope.control_group).wait_empty()


async def _rendezvous(shard: Shard, name: str, target: str) -> bool:
    """Whether `host:port` accepted a connection in time. Names are looked up anew at each try."""
    host, _, port = target.rpartition(":")
    host = host.strip("[]")
    where = f"{target} ({_whose(shard.record.spec, host)})"
    limit = shard.record.spec.rendezvous_timeout_s
    until = shard.record.leader_until.get(name) or time.monotonic() + limit
    shard.note(keep=True, leader_until={**shard.record.leader_until, name: until})
    while True:
        shard.note(reason=f"{name} waits for {where}")  # also after a drain, which has a word of its own
        if await shard.world.probes.is_listening(host, int(port)):
            return True
        left = until - time.monotonic()
        if left <= 0:
            shard.tell(Fact.TIME_UP, f"{where} not listening after {limit:g} s")
            return False
        await asyncio.sleep(min(left, _RENDEZVOUS_STEP_S))


def _whose(spec: ShardSpec, host: str) -> str:
    """Rank 0 waits for its own head, or for its peers where those come first."""
    is_peer = spec.rank == 0 and any(host_and_port(peer)[0] == host for peer in spec.peers)
    return "peer" if is_peer else "leader"
