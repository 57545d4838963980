"""A real Ray in a machine, and beside it a `vllm` that is a stand-in: Ray's ranks are for GPUs."""

import re
from typing import Final

from tests.machine.laid import lay, write_program
from tests.machine.machine import TREE_INSIDE, Machine
from tests.machine.node import Node, Shard
from tests.machine.pair import A
from tests.real.ray import ray

_RAY: Final = "/opt/ray"
_PROGRAMS: Final = "/opt/engines/bin"
_NODE: Final = re.compile(r"^ 1 node_[0-9a-f]+$", re.MULTILINE)


def install(machine: Machine) -> None:
    lay(machine, ray(), _RAY)
    write_program(machine, f"{_PROGRAMS}/ray", f"{_RAY}/bin/ray")
    fake = f"{TREE_INSIDE}/tests/fakes/vllm_on_ray.py"
    write_program(machine, f"{_PROGRAMS}/vllm", f"{_RAY}/bin/python3", "-P", fake)
    # As on a host. Ray wants a third of the memory in it, and nspawn gives a tenth.
    machine.run(["mount", "-o", "remount,size=50%", "/dev/shm"])


def rank(number: int, *, port: int = 6379, http: int = 8000) -> dict[str, object]:
    """The keys of a spec for one of two ranks."""
    return {
        "engine": "vllm",
        "executable": f"{_PROGRAMS}/vllm",
        "executor": "ray",
        "model": "tiny",
        "port": http,
        "gpus": [],
        "tensor_parallel": 2,
        "nodes": 2,
        "rank": number,
        "leader_address": A.address,
        "leader_port": port,
    }


def members(head: Node, port: int = 6379) -> int:
    """How many nodes `ray status` shows."""
    command = [f"{_PROGRAMS}/ray", "status", "--address", f"{A.address}:{port}"]
    return len(_NODE.findall(head.machine.run(command, user="llmgw", check=False).stdout))


def pid_of(node: Node, shard: Shard, words: str) -> int:
    """The first process of a shard that has these words on its command line."""
    for pid in node.processes(shard):
        command = node.machine.path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
        if words in command:
            return pid
    raise AssertionError(f"{shard['Id']} has no process {words}")
