"""A real vLLM in booted machines: on one node, and one model over two of them."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.heavy.vllm import PROGRAM, vllm, write_model
from tests.machine.laid import lay
from tests.machine.machine import TREE_INSIDE
from tests.machine.node import Node, Shard, outcome
from tests.machine.pair import A, Pair
from tests.machine.processes import nothing_left

MODEL = "/var/lib/llmgw/tiny"
LOADS_S = 600.0
STOPS_S = 60.0
# As small as it gets, on a CPU that others want, too.
ARGS = [
    "--enforce-eager",
    "--dtype", "float32",
    "--max-model-len", "256",
    "--max-num-seqs", "2",
    "--kv-cache-memory-bytes", str(32 << 20),
]  # fmt: skip
ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "OMP_NUM_THREADS": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
}


@pytest.fixture(scope="module")
def executable(booted_pair: Pair, tmp_path_factory: pytest.TempPathFactory) -> str:
    model: Path = tmp_path_factory.mktemp("model") / "tiny"
    model.mkdir()
    write_model(vllm(), model)
    for node in booted_pair.both:
        place = lay(node.machine, vllm(), "/opt/vllm")
        shutil.copytree(model, node.machine.path(MODEL))
    return f"{place}/{PROGRAM}"


@pytest.fixture
def nothing_is_left(booted_pair: Pair, executable: str) -> Iterator[None]:
    with nothing_left(*booted_pair.both):
        yield


@pytest.fixture
def nodes(nothing_is_left: None, pair: Pair) -> Pair:
    return pair


def spec(executable: str, **keys: object) -> dict[str, object]:
    served = {"engine": "vllm", "executable": executable, "model": MODEL, "served_model_name": "tiny"}
    serves = {"host": "0.0.0.0", "port": 8000, "gpus": [], "args": ARGS, "environment": ENVIRONMENT}
    return {**served, **serves, **keys}


def rank(executable: str, number: int) -> dict[str, object]:
    leader = {"leader_address": A.address, "leader_port": 29501}
    return spec(executable, nodes=2, rank=number, tensor_parallel=2, executor="mp", **leader)


def completion(shard: Shard, asker: Node) -> int:
    """How many tokens the answer has."""
    program = f"{TREE_INSIDE}/tests/real/completion.py"
    asked = ["/usr/bin/python3", "-IS", program, shard["Endpoint"], "hello", "8"]
    answer = json.loads(asker.machine.run(asked, timeout_s=90).stdout)
    return int(answer["usage"]["completion_tokens"])


def stop(node: Node) -> tuple[str, str, int, str]:
    node.stop("r")
    return outcome(node.wait_state("r", "stopped", timeout_s=STOPS_S))


def test_one_node_answers_and_stops(nodes: Pair, executable: str) -> None:
    nodes.a.start("r", **spec(executable))
    shard = nodes.a.wait_state("r", "ready", timeout_s=LOADS_S)
    assert (shard["Reason"], completion(shard, nodes.b)) == ("serves tiny", 8)
    assert stop(nodes.a) == ("stopped", "stopped", 0, "")


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["leader first", "worker first"])
def test_a_model_over_two_nodes_answers_and_stops(
    nodes: Pair, executable: str, order: tuple[int, int]
) -> None:
    for number in order:
        nodes.both[number].start("r", **rank(executable, number))
    shard = nodes.a.wait_state("r", "ready", timeout_s=LOADS_S)
    assert (nodes.b.shard("r")["State"], completion(shard, nodes.b)) == ("ready", 8)
    assert [stop(nodes.both[number]) for number in order] == [("stopped", "stopped", 0, "")] * 2
