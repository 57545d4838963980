"""One replica of the real llama.cpp over two machines: rank 1 lends its devices, rank 0 serves with them."""

import json
import re
from collections.abc import Callable

import pytest

from tests.machine import llama
from tests.machine.machine import TREE_INSIDE
from tests.machine.node import Node, Shard, outcome
from tests.machine.pair import A, B, Pair
from tests.real.gguf import Shape
from tests.real.llama import llama_server

MODEL = "/var/lib/llmgw/random.gguf"
RPC = 5005
PEER = f"{B.address}:{RPC}"


@pytest.fixture(scope="module")
def executable(booted_pair: Pair) -> str:
    # Not an installed one, which may have no rpc-server beside it.
    program = llama_server(search="/nonexistent")
    for node in booted_pair.both:
        llama.lay(node.machine, program)
    llama.write_model(booted_pair.a.machine, MODEL, Shape())  # the leader's node alone has it
    return llama.path_inside(program)


def serve(pair: Pair, executable: str, **spec: object) -> None:
    pair.a.start("r0", **replica(executable, rank=0, args=["--threads", "1", "--parallel", "1"], **spec))


def lend(pair: Pair, executable: str) -> None:
    pair.b.start("r1", **replica(executable, rank=1, args=["--threads", "1"]))


def replica(executable: str, **spec: object) -> dict[str, object]:
    """What both ranks are told, and what is different for one."""
    return {
        "engine": "llama-cpp",
        "model": MODEL,
        "served_model_name": "random",
        "executable": executable,
        "nodes": 2,
        "leader_address": A.address,
        "leader_port": RPC,
        "peers": [B.address],
        "host": A.address,
        "port": 8111,
        "gpus": [],
        **spec,
    }


def wait_for_peer(pair: Pair) -> Shard:
    return pair.a.wait("r0", "waits", lambda shard: shard["Reason"] == f"engine waits for {PEER} (peer)")


def wait_ready(pair: Pair) -> tuple[Shard, Shard]:
    return pair.a.wait_state("r0", "ready", timeout_s=30), pair.b.wait_state("r1", "ready")


def completion(node: Node, endpoint: str) -> str:
    """What the engine makes of `hello`, asked from `node`."""
    program = f"{TREE_INSIDE}/tests/real/completion.py"
    answer = node.machine.run(["/usr/bin/python3", "-IS", program, endpoint, "hello", "8"]).stdout
    return str(json.loads(answer)["choices"][0]["text"])


def lent(pair: Pair) -> list[tuple[str, bool]]:
    """Who is connected to rank 1, and whether most of the model has come from there."""
    size = pair.a.machine.path(MODEL).stat().st_size
    only = ["state", "established", f"( sport = :{RPC} )"]
    printed = pair.b.machine.run(["ss", "--no-header", "--oneline", "-tni", *only]).stdout
    # Recv-Q, Send-Q, own address, peer's address, then what TCP knows (ss(8))
    found = re.findall(r"\d+ +\d+ +\S+ +(\S+):\d+ .*bytes_received:(\d+)", printed)
    return [(address, int(received) > size / 2) for address, received in found]


def by_leader_first(pair: Pair, executable: str) -> None:
    serve(pair, executable)
    held = wait_for_peer(pair)
    assert (held["State"], held["Pid"]) == ("starting", 0)
    lend(pair, executable)


def by_worker_first(pair: Pair, executable: str) -> None:
    lend(pair, executable)
    pair.b.wait_state("r1", "ready")
    serve(pair, executable)


@pytest.mark.parametrize("start", [by_leader_first, by_worker_first])
def test_in_either_order_it_answers_through_its_leader_and_leaves_nothing(
    pair: Pair, executable: str, start: Callable[[Pair, str], None]
) -> None:
    start(pair, executable)
    leader, worker = wait_ready(pair)
    assert (leader["Endpoint"], worker["Endpoint"]) == (f"http://{A.address}:8111", "")
    assert completion(pair.b, leader["Endpoint"])
    assert lent(pair) == [(A.address, True)]
    pids = pair.a.processes(leader), pair.b.processes(worker)
    pair.a.stop("r0")
    pair.b.stop("r1")
    ended = pair.a.wait_state("r0", "stopped"), pair.b.wait_state("r1", "stopped")
    assert [outcome(shard) for shard in ended] == [
        ("stopped", "stopped", 0, ""),
        ("stopped", "stopped", 143, "SIGTERM"),
    ]
    for node, there in zip(pair.both, pids, strict=True):
        assert (node.running(there), node.scopes()) == ([], [])


def test_a_stop_ends_the_leaders_waiting_for_a_peer(pair: Pair, executable: str) -> None:
    serve(pair, executable)
    pids = pair.a.processes(wait_for_peer(pair))
    pair.a.stop("r0")
    assert outcome(pair.a.wait_state("r0", "stopped", timeout_s=5)) == ("stopped", "stopped", -1, "")
    assert pair.a.running(pids) == []


def test_a_peer_that_does_not_come_in_time_fails_the_leader(pair: Pair, executable: str) -> None:
    serve(pair, executable, rendezvous_timeout_s=0.5)
    failed = pair.a.wait_state("r0", "failed")
    assert failed["Reason"] == f"{PEER} (peer) not listening after 0.5 s"


def test_a_leader_whose_daemon_is_killed_while_it_waits_serves_later(pair: Pair, executable: str) -> None:
    serve(pair, executable)
    wait_for_peer(pair)
    pair.a.kill_daemon()
    wait_for_peer(pair)
    lend(pair, executable)
    leader, _ = wait_ready(pair)
    assert completion(pair.b, leader["Endpoint"])
    assert lent(pair) == [(A.address, True)]


def test_it_outlives_the_daemons_of_both_its_nodes(pair: Pair, executable: str) -> None:
    by_worker_first(pair, executable)
    before = wait_ready(pair)
    for node in pair.both:
        node.kill_daemon()
    after = wait_ready(pair)
    assert [shard["Pid"] for shard in after] == [shard["Pid"] for shard in before]
    assert completion(pair.b, after[0]["Endpoint"])


def test_a_worker_that_stays_serves_the_next_leader(pair: Pair, executable: str) -> None:
    by_worker_first(pair, executable)
    before = wait_ready(pair)
    pair.a.stop("r0")
    pair.a.wait_state("r0", "stopped")
    serve(pair, executable)
    after = wait_ready(pair)
    assert (after[0]["Pid"] == before[0]["Pid"], after[1]["Pid"] == before[1]["Pid"]) == (False, True)
    assert completion(pair.b, after[0]["Endpoint"])
    assert lent(pair) == [(A.address, True)]


def test_a_leader_whose_peer_is_stopped_before_it_can_still_be_stopped(pair: Pair, executable: str) -> None:
    by_worker_first(pair, executable)
    wait_ready(pair)
    pair.b.stop("r1")
    pair.b.wait_state("r1", "stopped")
    pair.a.stop("r0")
    # It aborts when it would give back what is gone (ggml-rpc.cpp, RPC_STATUS_ASSERT).
    assert outcome(pair.a.wait_state("r0", "stopped")) == ("stopped", "stopped", 134, "SIGABRT")


def test_a_leader_whose_peer_dies_fails_at_its_next_request(pair: Pair, executable: str) -> None:
    by_worker_first(pair, executable)
    leader, worker = wait_ready(pair)
    pair.b.kill(worker["Pid"])
    assert outcome(pair.b.wait_state("r1", "failed")) == (
        "failed",
        "engine was killed by SIGKILL",
        137,
        "SIGKILL",
    )
    program = f"{TREE_INSIDE}/tests/real/completion.py"
    asked = ["/usr/bin/python3", "-IS", program, leader["Endpoint"], "hello", "8"]
    assert pair.b.machine.run(asked, check=False).returncode == 1
    assert outcome(pair.a.wait_state("r0", "failed")) == (
        "failed",
        "engine was killed by SIGABRT",
        134,
        "SIGABRT",
    )
