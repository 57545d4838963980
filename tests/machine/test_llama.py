"""The life of a shard of the real llama-server, driven by busctl alone and by llmgwctl alone."""

import json
from collections.abc import Iterator

import pytest

from tests.machine import llama
from tests.machine.machine import ENVIRONMENT, TREE_INSIDE
from tests.machine.monitor import Monitor
from tests.machine.node import Node, outcome
from tests.real.gguf import Shape
from tests.real.llama import llama_server

MODEL = "/var/lib/llmgw/random.gguf"
TO_READY = [
    ("", "pending", "accepted"),
    ("pending", "starting", "held at the gate"),
    ("starting", "loading", "the engine was started"),
    ("loading", "ready", "serves random"),
]
STOPPED = [*TO_READY, ("ready", "draining", "drained"), ("draining", "stopped", "stopped")]
KILLED = [*TO_READY, ("ready", "failed", "engine was killed by SIGKILL")]


@pytest.fixture(scope="module")
def executable(booted_node: Node) -> str:
    program = llama_server(search=ENVIRONMENT["PATH"])
    llama.lay(booted_node.machine, program)
    llama.write_model(booted_node.machine, MODEL, Shape())
    return llama.path_inside(program)


@pytest.fixture
def bus(node: Node) -> Iterator[Monitor]:
    with node.signals() as bus:
        yield bus


def by_busctl(node: Node, executable: str) -> None:
    node.start(
        "a",
        engine="llama-cpp",
        model=MODEL,
        served_model_name="random",
        executable=executable,
        port=8111,
        gpus=[],
        args=["--threads", "1", "--parallel", "1"],
    )
    node.wait_state("a", "ready", timeout_s=30)


def by_llmgwctl(node: Node, executable: str) -> None:
    command = ["llmgwctl", "start", "a", "--engine", "llama-cpp", "--model", MODEL, "--port", "8111"]
    keys = ["--set", "served_model_name=random", "--set", f'executable="{executable}"', "--set", "gpus=[]"]
    node.machine.run([*command, *keys, "--wait", "--", "--threads", "1", "--parallel", "1"], timeout_s=60)


def completion(node: Node, endpoint: str) -> str:
    program = f"{TREE_INSIDE}/tests/real/completion.py"
    return node.machine.run(["/usr/bin/python3", "-IS", program, endpoint, "hello", "8"]).stdout


def test_it_starts_answers_drains_and_stops_by_busctl(node: Node, executable: str, bus: Monitor) -> None:
    by_busctl(node, executable)
    shard = node.shard("a")
    assert completion(node, shard["Endpoint"])
    node.call("DrainShard", "s", "a")
    assert completion(node, shard["Endpoint"])
    node.stop("a")
    assert outcome(node.wait_state("a", "stopped")) == ("stopped", "stopped", 0, "")
    bus.wait_state("a", "stopped")
    assert bus.states("a") == STOPPED


def test_it_starts_and_is_killed_by_busctl(node: Node, executable: str, bus: Monitor) -> None:
    by_busctl(node, executable)
    node.kill(node.shard("a")["Pid"])
    failed = node.wait_state("a", "failed")
    assert outcome(failed) == ("failed", "engine was killed by SIGKILL", 137, "SIGKILL")
    bus.wait_state("a", "failed")
    assert bus.states("a") == KILLED


def test_it_starts_answers_drains_and_stops_by_llmgwctl(node: Node, executable: str, bus: Monitor) -> None:
    by_llmgwctl(node, executable)
    shard = json.loads(node.machine.run(["llmgwctl", "status", "a", "--json"]).stdout)
    assert (shard["state"], shard["endpoint"]) == ("ready", "http://127.0.0.1:8111")
    assert completion(node, shard["endpoint"])
    assert "listening" in node.machine.run(["llmgwctl", "logs", "a"]).stdout
    node.machine.run(["llmgwctl", "drain", "a"])
    node.machine.run(["llmgwctl", "stop", "a"])
    bus.wait_state("a", "stopped")
    assert bus.states("a") == STOPPED


def test_it_starts_and_is_killed_by_llmgwctl(node: Node, executable: str, bus: Monitor) -> None:
    by_llmgwctl(node, executable)
    shard = json.loads(node.machine.run(["llmgwctl", "status", "a", "--json"]).stdout)
    node.kill(shard["pid"])
    node.machine.run(["llmgwctl", "wait", "a", "--for", "failed", "--timeout", "10"])
    bus.wait_state("a", "failed")
    assert bus.states("a") == KILLED
