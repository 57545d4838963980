"""The node on the bus: org.llmgw.Node1.Manager."""

from collections.abc import Awaitable, Callable, Mapping
from typing import ClassVar

from llmgwd.api import actions, paths, wire
from llmgwd.api.shard import ShardObject
from llmgwd.bus.calls import Caller, Interface, exported
from llmgwd.bus.library import Variant
from llmgwd.engines.facts import find_gpu
from llmgwd.host.about import About
from llmgwd.host.cgroup import Cgroup
from llmgwd.model.lifecycle import TERMINAL
from llmgwd.supervisor.node import Node

_COMMAND = {
    "name": "s",
    "argv": "as",
    "environment": "a{ss}",
    "working_directory": "s",
    "waits_for": "as",
    "warnings": "as",
}
_ORPHAN = {"unit": "s", "control_group": "s", "pids": "au", "id": "s"}
_STATISTICS = {
    "id": "s",
    "memory_current": "t",
    "memory_anon": "t",
    "memory_file": "t",
    "cpu_usage_usec": "t",
    "tasks": "t",
    "probe_seconds": "d",
    "starts": "t",
}
_GPU = {"index": "u", "uuid": "s", "name": "s", "vendor": "s", "memory_bytes": "t", "shard": "s"}
_RDMA = {
    "device": "s",
    "port": "u",
    "link_layer": "s",
    "state": "s",
    "interface": "s",
    "gid_index": "i",
    "gid": "s",
}


class Manager(Interface):
    """Three lines a method: read the arguments, ask the node, write the answer."""

    name = "org.llmgw.Node1.Manager"
    PROPERTIES: ClassVar = {
        "Version": "s const",
        "NodeName": "s",
        "ManagementAddress": "s",
        "ManagementInterface": "s",
        "NcclIbGidIndex": "i",
        "RdmaDevices": "aa{sv}",
        "Gpus": "aa{sv}",
        "Engines": "as",
        "Warnings": "as",
        "Starts": "t",
        "Ends": "a{st}",
    }
    SIGNALS: ClassVar = {"ShardStateChanged": "s id, s old, s new, s reason"}

    def __init__(
        self,
        node: Node,
        about: About,
        objects: Callable[[str], ShardObject],
        reload: Callable[[], Awaitable[None]],
    ) -> None:
        self._node = node
        self._about = about
        self._object = objects
        self._reload = reload

    def read(self) -> Mapping[str, object]:
        about = self._about
        return {
            "Version": about.version,
            "NodeName": about.node_name,
            "ManagementAddress": about.management_address,
            "ManagementInterface": about.management_interface,
            "NcclIbGidIndex": about.nccl_ib_gid_index,
            "RdmaDevices": [wire.dictionary(_RDMA, _fields(port, _RDMA)) for port in about.rdma],
            "Gpus": self._gpus(),
            "Engines": list(about.engines),
            "Warnings": list(about.warnings),
            "Starts": self._node.starts,
            "Ends": dict(self._node.ends),
        }

    def show(self, about: About) -> None:
        """PropertiesChanged for what is different from what was said of the node before."""
        before = self.read()
        self._about = about
        self.changed(*(name for name, value in self.read().items() if value != before[name]))

    @exported("StartShard", takes="s id, a{sv} spec", gives="o shard", action=actions.MANAGE)
    async def start_shard(self, _: Caller, id: str, spec: dict[str, Variant]) -> str:
        shard = await self._node.start(id, wire.spec_from_dbus(spec))
        return paths.shard(shard.record.id)

    @exported("PlanShard", takes="s id, a{sv} spec", gives="aa{sv} commands", action=actions.MANAGE)
    async def plan_shard(self, _: Caller, id: str, spec: dict[str, Variant]) -> list[dict[str, Variant]]:
        _spec, plan = await self._node.plan(id, wire.spec_from_dbus(spec))
        return [
            wire.dictionary(_COMMAND, _fields(process, _COMMAND) | {"warnings": list(plan.warnings)})
            for process in plan.processes
        ]

    @exported("StopShard", takes="s id, a{sv} options", action=actions.MANAGE)
    async def stop_shard(self, _: Caller, id: str, options: dict[str, Variant]) -> None:
        drain_s, limit_s = wire.stop_options(options)
        await self._node.stop(id, drain_s=drain_s, limit_s=limit_s)

    @exported("StopAll", takes="a{sv} options", action=actions.MANAGE)
    async def stop_all(self, _: Caller, options: dict[str, Variant]) -> None:
        drain_s, limit_s = wire.stop_options(options)
        await self._node.stop_all(drain_s=drain_s, limit_s=limit_s)

    @exported("DrainShard", takes="s id", action=actions.MANAGE)
    async def drain_shard(self, _: Caller, id: str) -> None:
        await self._node.drain(id)

    @exported("RemoveShard", takes="s id", action=actions.MANAGE)
    async def remove_shard(self, _: Caller, id: str) -> None:
        await self._node.remove(id)

    @exported("GetShard", takes="s id", gives="o shard", action=actions.READ)
    async def get_shard(self, _: Caller, id: str) -> str:
        return paths.shard(self._node.shard(id).record.id)

    @exported("ListShards", gives="aa{sv} shards", action=actions.READ)
    async def list_shards(self, _: Caller) -> list[dict[str, Variant]]:
        return [self._object(shard.record.id).properties() for shard in self._node.shards()]

    @exported("TailShard", takes="s id, u lines", gives="as lines", action=actions.READ_LOGS)
    async def tail_shard(self, _: Caller, id: str, lines: int) -> list[str]:
        return await self._node.tail(id, lines)

    @exported("GetStatistics", gives="aa{sv} statistics", action=actions.READ)
    async def get_statistics(self, _: Caller) -> list[dict[str, Variant]]:
        return [
            wire.dictionary(
                _STATISTICS,
                Cgroup(shard.record.control_group).statistics()
                | {"id": shard.record.id, "probe_seconds": shard.probe_s, "starts": shard.record.starts},
            )
            for shard in self._node.shards()
        ]

    @exported("ListOrphans", gives="aa{sv} orphans", action=actions.READ)
    async def list_orphans(self, _: Caller) -> list[dict[str, Variant]]:
        return [wire.dictionary(_ORPHAN, _fields(orphan, _ORPHAN)) for orphan in await self._node.orphans()]

    @exported("KillOrphan", takes="s unit", action=actions.MANAGE)
    async def kill_orphan(self, _: Caller, unit: str) -> None:
        await self._node.kill_orphan(unit)

    @exported("Reload", action=actions.MANAGE)
    async def reload(self, _: Caller) -> None:
        await self._reload()

    def _gpus(self) -> list[dict[str, Variant]]:
        gpus = self._about.gpus
        holders = {
            find_gpu(name, gpus): shard.record.id
            for shard in self._node.shards()
            if shard.record.state not in TERMINAL
            for name in shard.record.spec.gpus or ()
        }
        return [
            wire.dictionary(
                _GPU,
                _fields(gpu, {key: _GPU[key] for key in _GPU if key != "shard"})
                | {"shard": holders.get(gpu, "")},
            )
            for gpu in gpus
        ]


def _fields(thing: object, keys: Mapping[str, str]) -> dict[str, object]:
    """The attributes that a dictionary on the bus is made of, tuples as lists."""
    found = {key: getattr(thing, key) for key in keys if hasattr(thing, key)}
    return {key: list(value) if isinstance(value, tuple) else value for key, value in found.items()}
