"""A daemon that is none: owns org.llmgw.Node1 on a bus, and does what its standard input says.

Each line there is a JSON object, `do` and what that needs; each is answered by a line on standard output.
Run as `python -m tests.fakes.manager ADDRESS`, by tests.fakes.node.
"""

import asyncio
import json
import sys
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from llmgwd.bus.calls import Caller, Interface, exported
from llmgwd.bus.connection import Connection
from llmgwd.bus.library import Variant
from llmgwd.bus.names import path_label
from llmgwd.bus.objects import Objects
from tests.fakes.rules import RefusedError, Rules

NAME = "org.llmgw.Node1"
ROOT = "/org/llmgw/Node1"
TERMINAL = {"stopped", "failed"}
DICTIONARIES = {
    "name": "s", "argv": "as", "environment": "a{ss}", "working_directory": "s", "waits_for": "as",
    "warnings": "as", "unit": "s", "control_group": "s", "pids": "au", "id": "s",
    "device": "s", "port": "u", "link_layer": "s", "state": "s", "interface": "s", "gid_index": "i",
    "gid": "s", "index": "u", "uuid": "s", "vendor": "s", "memory_bytes": "t", "shard": "s",
    "memory_current": "t", "probe_seconds": "d", "starts": "t",
    "engine": "s", "model": "s", "command": "as", "user": "s", "sidecars": "aa{sv}",
}  # fmt: skip


def tagged(value: Any) -> Any:
    """What came over the bus, each Variant as its signature and value: ["u", 8000]."""
    if isinstance(value, Variant):
        return [value.signature, tagged(value.value)]
    if isinstance(value, dict):
        return {key: tagged(item) for key, item in value.items()}
    return [tagged(item) for item in value] if isinstance(value, list) else value


def dictionary(values: Mapping[str, Any]) -> dict[str, Variant]:
    return {
        key: Variant(DICTIONARIES[key], list(map(dictionary, value)) if key == "sidecars" else value)
        for key, value in values.items()
    }


def path_of(id: str) -> str:
    return f"{ROOT}/shard/{path_label(id)}"


class Shard(Interface):
    name = NAME + ".Shard"
    PROPERTIES: ClassVar[Mapping[str, str]] = {
        "Id": "s", "ReplicaId": "s", "Rank": "u", "Nodes": "u", "Engine": "s", "Model": "s", "State": "s",
        "Reason": "s", "Health": "s", "Pid": "u", "ExitCode": "i", "ExitSignal": "s", "OomKills": "u",
        "Started": "t", "Ready": "t", "Endpoint": "s", "Unit": "s", "InvocationId": "s", "ControlGroup": "s",
        "Adopted": "b", "Gpus": "as", "Spec": "a{sv}",
    }  # fmt: skip
    SIGNALS: ClassVar[Mapping[str, str]] = {"StateChanged": "s old, s new, s reason"}

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.log: list[str] = []
        self.values: dict[str, Any] = {
            "ReplicaId": values["Id"], "Rank": 0, "Nodes": 1, "Engine": "command", "Model": "",
            "State": "pending", "Reason": "", "Health": "unknown", "Pid": 0, "ExitCode": -1, "ExitSignal": "",
            "OomKills": 0, "Started": 0, "Ready": 0, "Endpoint": "", "Unit": "", "InvocationId": "",
            "ControlGroup": "", "Adopted": False, "Gpus": [], "Spec": {}, **values,
        }  # fmt: skip

    def read(self) -> Mapping[str, object]:
        return self.values | {"Spec": dictionary(self.values["Spec"])}

    @property
    def live(self) -> bool:
        return self.values["State"] not in TERMINAL


class Manager(Interface):
    name = NAME + ".Manager"
    PROPERTIES: ClassVar[Mapping[str, str]] = {
        "Version": "s const", "NodeName": "s", "ManagementAddress": "s", "ManagementInterface": "s",
        "NcclIbGidIndex": "i", "RdmaDevices": "aa{sv}", "Gpus": "aa{sv}", "Engines": "as", "Warnings": "as",
        "Starts": "t", "Ends": "a{st}",
    }  # fmt: skip
    SIGNALS: ClassVar[Mapping[str, str]] = {"ShardStateChanged": "s id, s old, s new, s reason"}

    def __init__(self) -> None:
        self.objects = Objects(ROOT, authorise=self.before, errors=self.answer)
        self.shards: dict[str, Shard] = {}
        self.reset()

    def reset(self) -> None:
        """Be as at the start."""
        for shard_id in list(self.shards):
            self.remove(shard_id)
        self.rules = Rules(self.obey)
        self.calls: list[Any] = []
        self.commands: list[dict[str, Any]] = []
        self.orphans: list[dict[str, Any]] = []
        self.node: dict[str, Any] = {
            "Version": "0.1.0", "NodeName": "gpu-3", "ManagementAddress": "10.0.0.3",
            "ManagementInterface": "eth0", "NcclIbGidIndex": -1, "RdmaDevices": [], "Gpus": [],
            "Engines": ["command", "llama-cpp", "vllm"], "Warnings": [], "Starts": 0, "Ends": {},
        }  # fmt: skip

    def read(self) -> Mapping[str, object]:
        return self.node | {key: list(map(dictionary, self.node[key])) for key in ("RdmaDevices", "Gpus")}

    async def before(self, _: Caller, member: str) -> None:
        await self.rules.apply(member)

    def answer(self, error: Exception) -> tuple[str, str] | None:
        return (error.error, str(error)) if isinstance(error, RefusedError) else None

    def obey(self, order: Mapping[str, Any]) -> object:
        """Do what a test wants."""
        orders: dict[str, Callable[..., object]] = {
            "reset": self.reset,
            "put": self.put,
            "change": self.change,
            "remove": self.remove,
            "set": lambda what, value: setattr(self, what, value),
            "log": self.log,
            "calls": lambda: self.calls,
            "fail": self.rules.fail,
            "die on": self.rules.die_on,
            "hold": self.rules.hold,
            "release": self.rules.release,
            "after": self.rules.after,
        }
        return orders[order["do"]](**{key: value for key, value in order.items() if key != "do"})

    def put(self, values: Mapping[str, Any]) -> None:
        shard = self.shards[values["Id"]] = Shard(values)
        if self.objects.interfaces(path_of(values["Id"])):
            self.objects.remove(path_of(values["Id"]))
        self.objects.add(path_of(values["Id"]), shard)
        self.emit("ShardStateChanged", values["Id"], "", shard.values["State"], shard.values["Reason"])

    def change(self, id: str, values: Mapping[str, Any]) -> None:
        shard = self.shards[id]
        old = shard.values["State"]
        shard.values |= values
        shard.changed(*values)
        if shard.values["State"] != old:
            news = (old, shard.values["State"], shard.values["Reason"])
            shard.emit("StateChanged", *news)
            self.emit("ShardStateChanged", id, *news)

    def remove(self, id: str) -> None:
        del self.shards[id]
        self.objects.remove(path_of(id))

    def log(self, id: str, lines: list[str]) -> None:
        self.shards[id].log = lines

    def find(self, id: str) -> Shard:
        if id not in self.shards:
            raise RefusedError(NAME + ".Error.NoSuchShard", f"NoSuchShard: no shard {id}")
        return self.shards[id]

    def note(self, member: str, *arguments: object) -> None:
        self.calls.append([member, *map(tagged, arguments)])

    def begin_stop(self, shard: Shard) -> None:
        if shard.live:
            self.change(shard.values["Id"], {"State": "draining", "Reason": "being stopped"})

    @exported("StartShard", takes="s id, a{sv} spec", gives="o shard", action="StartShard")
    async def start_shard(self, _: Caller, id: str, spec: dict[str, Variant]) -> str:
        self.note("StartShard", id, spec)
        if id not in self.shards or not self.shards[id].live:
            values = {key: str(spec[key].value) for key in ("engine", "model") if key in spec}
            self.put({"Id": id, "Engine": values.get("engine", ""), "Model": values.get("model", "")})
        return path_of(id)

    @exported("PlanShard", takes="s id, a{sv} spec", gives="aa{sv} commands", action="PlanShard")
    async def plan_shard(self, _: Caller, id: str, spec: dict[str, Variant]) -> list[dict[str, Variant]]:
        self.note("PlanShard", id, spec)
        return list(map(dictionary, self.commands))

    @exported("StopShard", takes="s id, a{sv} options", action="StopShard")
    async def stop_shard(self, _: Caller, id: str, options: dict[str, Variant]) -> None:
        self.note("StopShard", id, options)
        self.begin_stop(self.find(id))

    @exported("StopAll", takes="a{sv} options", action="StopAll")
    async def stop_all(self, _: Caller, options: dict[str, Variant]) -> None:
        self.note("StopAll", options)
        for shard in self.shards.values():
            self.begin_stop(shard)

    @exported("DrainShard", takes="s id", action="DrainShard")
    async def drain_shard(self, _: Caller, id: str) -> None:
        self.note("DrainShard", id)
        self.find(id)

    @exported("RemoveShard", takes="s id", action="RemoveShard")
    async def remove_shard(self, _: Caller, id: str) -> None:
        self.note("RemoveShard", id)
        self.find(id)

    @exported("GetShard", takes="s id", gives="o shard", action="GetShard")
    async def get_shard(self, _: Caller, id: str) -> str:
        self.find(id)
        return path_of(id)

    @exported("ListShards", gives="aa{sv} shards", action="ListShards")
    async def list_shards(self, _: Caller) -> list[dict[str, Variant]]:
        return [shard.properties() for shard in self.shards.values()]

    @exported("TailShard", takes="s id, u lines", gives="as tail", action="TailShard")
    async def tail_shard(self, _: Caller, id: str, lines: int) -> list[str]:
        self.note("TailShard", id, lines)
        return self.find(id).log[-lines:]

    @exported("GetStatistics", gives="aa{sv} statistics", action="GetStatistics")
    async def get_statistics(self, _: Caller) -> list[dict[str, Variant]]:
        return [dictionary({"id": name, "memory_current": 1 << 40, "starts": 1}) for name in self.shards]

    @exported("ListOrphans", gives="aa{sv} orphans", action="ListOrphans")
    async def list_orphans(self, _: Caller) -> list[dict[str, Variant]]:
        return list(map(dictionary, self.orphans))

    @exported("KillOrphan", takes="s unit", action="KillOrphan")
    async def kill_orphan(self, _: Caller, unit: str) -> None:
        self.note("KillOrphan", unit)

    @exported("Reload", action="Reload")
    async def reload(self, _: Caller) -> None:
        self.note("Reload")


async def serve(address: str) -> None:
    manager = Manager()
    manager.objects.add(ROOT, manager)
    connection = Connection(address, name=NAME)
    await connection.connect()
    connection.serve(manager.objects)
    orders = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(orders), sys.stdin
    )
    async for line in orders:
        order = json.loads(line)
        answer: object = None
        if order["do"] == "own name":
            await connection.own_name()
        elif order["do"] == "await answer":
            await manager.rules.answered(order["member"], order["times"])
        else:
            answer = manager.obey(order)
        print(json.dumps(answer), flush=True)
    await connection.close()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
