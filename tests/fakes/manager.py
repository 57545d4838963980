"""A daemon that is none: owns org.llmgw.Node1 on the bus that it is told, and does what its standard input says.

Each line there is a JSON object with `do` and what it needs; each is answered by a line on standard output.
Run as `python -m tests.fakes.manager ADDRESS`; tests talk to it through `tests.fakes.node`.
"""

import asyncio
import json
import os
import sys
from collections import Counter, defaultdict
from typing import Any

from llmgwd.bus.calls import Caller, Interface, exported
from llmgwd.bus.connection import Connection
from llmgwd.bus.library import Variant
from llmgwd.bus.names import path_label
from llmgwd.bus.objects import Objects

NAME = "org.llmgw.Node1"
ROOT = "/org/llmgw/Node1"
SHARD_PROPERTIES = {
    "Id": "s", "ReplicaId": "s", "Rank": "u", "Nodes": "u", "Engine": "s", "Model": "s",
    "State": "s", "Reason": "s", "Health": "s", "Pid": "u", "ExitCode": "i", "ExitSignal": "s", "OomKills": "u",
    "Started": "t", "Ready": "t", "Endpoint": "s", "Unit": "s", "InvocationId": "s", "ControlGroup": "s",
    "Adopted": "b", "Gpus": "as", "Spec": "a{sv}",
}  # fmt: skip
NODE_PROPERTIES = {
    "Version": "s const", "NodeName": "s", "ManagementAddress": "s", "ManagementInterface": "s",
    "NcclIbGidIndex": "i", "RdmaDevices": "aa{sv}", "Gpus": "aa{sv}", "Engines": "as", "Warnings": "as",
    "Starts": "t", "Ends": "a{st}",
}  # fmt: skip
DICTIONARIES = {
    "name": "s", "argv": "as", "environment": "a{ss}", "working_directory": "s", "waits_for": "as", "warnings": "as",
    "unit": "s", "control_group": "s", "pids": "au", "id": "s",
    "device": "s", "port": "u", "link_layer": "s", "state": "s", "interface": "s", "gid_index": "i", "gid": "s",
    "index": "u", "uuid": "s", "vendor": "s", "memory_bytes": "t", "shard": "s",
    "memory_current": "t", "probe_seconds": "d", "starts": "t",
    "engine": "s", "model": "s", "command": "as", "user": "s", "sidecars": "aa{sv}",
}  # fmt: skip
TERMINAL = {"stopped", "failed"}


class Refused(Exception):
    def __init__(self, error: str, text: str) -> None:
        super().__init__(text)
        self.error = error


def tagged(value: Any) -> Any:
    """What came over the bus, each Variant as its signature and value: [["u", 8000]]."""
    if isinstance(value, Variant):
        return [value.signature, tagged(value.value)]
    if isinstance(value, dict):
        return {key: tagged(item) for key, item in value.items()}
    return [tagged(item) for item in value] if isinstance(value, list) else value


def dictionary(values: dict[str, Any]) -> dict[str, Variant]:
    return {
        key: Variant(DICTIONARIES[key], list(map(dictionary, value)) if key == "sidecars" else value)
        for key, value in values.items()
    }


class Shard(Interface):
    name = NAME + ".Shard"
    PROPERTIES = SHARD_PROPERTIES
    SIGNALS = {"StateChanged": "s old, s new, s reason"}

    def __init__(self, values: dict[str, Any]) -> None:
        self.log: list[str] = []
        self.values: dict[str, Any] = {
            "ReplicaId": values["Id"], "Rank": 0, "Nodes": 1, "Engine": "command", "Model": "",
            "State": "pending", "Reason": "", "Health": "unknown", "Pid": 0, "ExitCode": -1, "ExitSignal": "",
            "OomKills": 0, "Started": 0, "Ready": 0, "Endpoint": "", "Unit": "", "InvocationId": "",
            "ControlGroup": "", "Adopted": False, "Gpus": [], "Spec": {}, **values,
        }  # fmt: skip

    def read(self) -> dict[str, object]:
        return self.values | {"Spec": dictionary(self.values["Spec"])}


class Manager(Interface):
    name = NAME + ".Manager"
    PROPERTIES = NODE_PROPERTIES
    SIGNALS = {"ShardStateChanged": "s id, s old, s new, s reason"}

    def __init__(self) -> None:
        self.objects = Objects(ROOT, authorise=self.before, errors=self.answer)
        self.shards: dict[str, Shard] = {}
        self.calls: list[Any] = []
        self.counts: Counter[str] = Counter()
        self.called = asyncio.Condition()
        self.failures: dict[str, list[tuple[str, str]]] = defaultdict(list)
        self.deadly: set[str] = set()
        self.held: dict[str, asyncio.Event] = {}
        self.after: dict[str, list[dict[str, Any]]] = {}
        self.commands: list[dict[str, Any]] = []
        self.orphans: list[dict[str, Any]] = []
        self.node: dict[str, Any] = {
            "Version": "0.1.0", "NodeName": "gpu-3", "ManagementAddress": "10.0.0.3",
            "ManagementInterface": "eth0", "NcclIbGidIndex": -1, "RdmaDevices": [], "Gpus": [],
            "Engines": ["command", "llama-cpp", "vllm"], "Warnings": [], "Starts": 0, "Ends": {},
        }  # fmt: skip

    def read(self) -> dict[str, object]:
        lists = {key: list(map(dictionary, self.node[key])) for key in ("RdmaDevices", "Gpus")}
        return self.node | lists

    async def before(self, caller: Caller, member: str) -> None:
        """Every call comes through here first."""
        async with self.called:
            self.counts[member] += 1
            self.called.notify_all()
        if member in self.deadly:
            os._exit(9)
        if member in self.held:
            await self.held[member].wait()
        if self.failures[member]:
            raise Refused(*self.failures[member].pop(0))
        later = self.after.pop(member, [])
        if later:
            asyncio.get_running_loop().call_soon(self._later, later, 3)

    def _later(self, changes: list[dict[str, Any]], rounds: int) -> None:
        """The answer leaves first: it is sent by the task that runs now."""
        if rounds:
            asyncio.get_running_loop().call_soon(self._later, changes, rounds - 1)
            return
        for change in changes:
            self.obey(change)

    def answer(self, error: Exception) -> tuple[str, str] | None:
        return (error.error, str(error)) if isinstance(error, Refused) else None

    def note(self, member: str, *arguments: object) -> None:
        self.calls.append([member, *map(tagged, arguments)])

    def find(self, id: str) -> Shard:
        if id not in self.shards:
            raise Refused(NAME + ".Error.NoSuchShard", f"NoSuchShard: no shard {id}")
        return self.shards[id]

    def put(self, values: dict[str, Any]) -> str:
        shard = self.shards[values["Id"]] = Shard(values)
        path = path_of(values["Id"])
        if self.objects.interfaces(path):
            self.objects.remove(path)
        self.objects.add(path, shard)
        self.emit("ShardStateChanged", values["Id"], "", shard.values["State"], shard.values["Reason"])
        return path

    def change(self, id: str, values: dict[str, Any]) -> None:
        shard = self.shards[id]
        old = shard.values["State"]
        shard.values.update(values)
        shard.changed(*values)
        new = shard.values["State"]
        if new != old:
            shard.emit("StateChanged", old, new, shard.values["Reason"])
            self.emit("ShardStateChanged", id, old, new, shard.values["Reason"])

    def obey(self, order: dict[str, Any]) -> object:
        """What a test wants."""
        match order:
            case {"do": "put", "values": values}:
                self.put(values)
            case {"do": "change", "id": id, "values": values}:
                self.change(id, values)
            case {"do": "remove", "id": id}:
                del self.shards[id]
                self.objects.remove(path_of(id))
            case {"do": "fail", "member": member, "error": error, "text": text}:
                self.failures[member].append((error, text))
            case {"do": "die on", "member": member}:
                self.deadly.add(member)
            case {"do": "hold", "member": member}:
                self.held[member] = asyncio.Event()
            case {"do": "release", "member": member}:
                self.held.pop(member).set()
            case {"do": "after", "member": member, "orders": orders}:
                self.after[member] = orders
            case {"do": "log", "id": id, "lines": lines}:
                self.shards[id].log = lines
            case {"do": "set", "what": what, "value": value}:
                setattr(self, what, value)
            case {"do": "calls"}:
                return self.calls
            case _:
                raise ValueError(f"do not know how to {order}")
        return None

    @exported("StartShard", takes="s id, a{sv} spec", gives="o shard", action="StartShard")
    async def start_shard(self, _: Caller, id: str, spec: dict[str, Variant]) -> str:
        self.note("StartShard", id, spec)
        if id in self.shards and self.shards[id].values["State"] not in TERMINAL:
            return path_of(id)
        engine = spec["engine"].value if "engine" in spec else "command"
        return self.put({"Id": id, "Engine": engine, "Model": spec["model"].value if "model" in spec else ""})

    @exported("PlanShard", takes="s id, a{sv} spec", gives="aa{sv} commands", action="PlanShard")
    async def plan_shard(self, _: Caller, id: str, spec: dict[str, Variant]) -> list[dict[str, Variant]]:
        self.note("PlanShard", id, spec)
        return list(map(dictionary, self.commands))

    @exported("StopShard", takes="s id, a{sv} options", action="StopShard")
    async def stop_shard(self, _: Caller, id: str, options: dict[str, Variant]) -> None:
        self.note("StopShard", id, options)
        if self.find(id).values["State"] not in TERMINAL:
            self.change(id, {"State": "draining", "Reason": "being stopped"})

    @exported("StopAll", takes="a{sv} options", action="StopAll")
    async def stop_all(self, _: Caller, options: dict[str, Variant]) -> None:
        self.note("StopAll", options)
        for id, shard in self.shards.items():
            if shard.values["State"] not in TERMINAL:
                self.change(id, {"State": "draining", "Reason": "being stopped"})

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
        return [dictionary({"id": id, "memory_current": 1 << 40, "starts": 1}) for id in self.shards]

    @exported("ListOrphans", gives="aa{sv} orphans", action="ListOrphans")
    async def list_orphans(self, _: Caller) -> list[dict[str, Variant]]:
        return list(map(dictionary, self.orphans))

    @exported("KillOrphan", takes="s unit", action="KillOrphan")
    async def kill_orphan(self, _: Caller, unit: str) -> None:
        self.note("KillOrphan", unit)

    @exported("Reload", action="Reload")
    async def reload(self, _: Caller) -> None:
        self.note("Reload")


def path_of(id: str) -> str:
    return f"{ROOT}/shard/{path_label(id)}"


async def serve(address: str) -> None:
    manager = Manager()
    manager.objects.add(ROOT, manager)
    connection = Connection(address, name=NAME)
    await connection.connect()
    connection.serve(manager.objects)
    orders = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
    async for line in orders:
        order = json.loads(line)
        answer: object = None
        if order["do"] == "own name":
            await connection.own_name()
        elif order["do"] == "await call":
            async with manager.called:
                await manager.called.wait_for(lambda: manager.counts[order["member"]] >= order["times"])
        else:
            answer = manager.obey(order)
        print(json.dumps(answer), flush=True)
    await connection.close()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
