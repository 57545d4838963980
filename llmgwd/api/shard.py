"""One shard on the bus: org.llmgw.Node1.Shard."""

from collections.abc import Callable, Mapping
from typing import ClassVar

from llmgwd.api import actions, wire
from llmgwd.bus.calls import Caller, Interface, exported
from llmgwd.bus.library import Variant
from llmgwd.engines.address import base_url
from llmgwd.model.lifecycle import State
from llmgwd.supervisor.node import Node
from llmgwd.supervisor.shard import Shard


class ShardObject(Interface):
    """Reads the shard, and asks the node to do what is to be done."""

    name = "org.llmgw.Node1.Shard"
    PROPERTIES: ClassVar = {
        "Id": "s",
        "ReplicaId": "s",
        "Rank": "u",
        "Nodes": "u",
        "Engine": "s",
        "Model": "s",
        "State": "s",
        "Reason": "s",
        "Health": "s",
        "Pid": "u",
        "ExitCode": "i",
        "ExitSignal": "s",
        "OomKills": "u",
        "Started": "t",
        "Ready": "t",
        "Endpoint": "s",
        "Unit": "s",
        "InvocationId": "s",
        "ControlGroup": "s",
        "Adopted": "b",
        "Gpus": "as",
        "Spec": "a{sv}",
    }
    SIGNALS: ClassVar = {"StateChanged": "s old, s new, s reason"}

    def __init__(self, node: Node, shard: Shard, management_address: Callable[[], str]) -> None:
        self._node = node
        self._shard = shard
        self._management_address = management_address
        self._spec = wire.spec_to_dbus(shard.record.spec)
        self._shown: Mapping[str, object] = {}

    def read(self) -> Mapping[str, object]:
        shard, record = self._shard, self._shard.record
        spec = record.spec
        return {
            "Id": record.id,
            "ReplicaId": spec.replica_id,
            "Rank": spec.rank,
            "Nodes": spec.nodes,
            "Engine": spec.engine,
            "Model": spec.model,
            "State": record.state.value,
            "Reason": record.reason,
            "Health": shard.health,
            "Pid": shard.pid,
            "ExitCode": record.exit_code,
            "ExitSignal": record.exit_signal,
            "OomKills": record.oom_kills,
            "Started": record.started_us,
            "Ready": record.ready_us,
            "Endpoint": self._endpoint(),
            "Unit": record.unit,
            "InvocationId": record.invocation_id,
            "ControlGroup": record.control_group,
            "Adopted": shard.adopted,
            "Gpus": list(spec.gpus or ()),
            "Spec": self._spec,
        }

    def show(self) -> None:
        """PropertiesChanged for what is different from what was shown last."""
        now = self.read()
        different = [name for name, value in now.items() if self._shown.get(name) != value]
        if self._shown and different:
            self.changed(*different)
        self._shown = now

    def announce(self, before: State) -> None:
        record = self._shard.record
        self.emit("StateChanged", before.value, record.state.value, record.reason)

    @exported("Stop", takes="a{sv} options", action=actions.MANAGE)
    async def stop(self, _: Caller, options: dict[str, Variant]) -> None:
        drain_s, limit_s = wire.stop_options(options)
        await self._node.stop(self._shard.record.id, drain_s=drain_s, limit_s=limit_s)

    @exported("Drain", action=actions.MANAGE)
    async def drain(self, _: Caller) -> None:
        await self._node.drain(self._shard.record.id)

    @exported("Remove", action=actions.MANAGE)
    async def remove(self, _: Caller) -> None:
        await self._node.remove(self._shard.record.id)

    @exported("Tail", takes="u lines", gives="as lines", action=actions.READ_LOGS)
    async def tail(self, _: Caller, lines: int) -> list[str]:
        return await self._node.tail(self._shard.record.id, lines)

    def _endpoint(self) -> str:
        record = self._shard.record
        if record.plan.http is None or not record.plan.http.is_endpoint:
            return ""
        return base_url(record.spec.host, record.spec.port, instead_of_any=self._management_address())
