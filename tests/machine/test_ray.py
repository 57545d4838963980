"""A real Ray over two machines, llmgwd on each: who waits for whom, and that nothing of it is left behind.

Only the program beside it that should be vLLM is none: Ray's ranks are for GPUs.
"""

import time
from collections.abc import Callable, Iterator

import pytest

from tests.machine import ray
from tests.machine.node import Node, Shard, outcome
from tests.machine.pair import A, B, Pair
from tests.machine.processes import assert_nothing_new, nothing_left, processes

HELD_S = 10.0
JOINS_S = 90.0
# What is left of an engine that has ended gets so much.
ABORT_S = 2.0
WAITS = f"engine waits for {A.address}:6379 (leader)"

# Parts of command lines.
RAYLET = "raylet/raylet"
RAY_START = "ray.scripts.scripts start"
# A worker that was asked to end exits with 1 (ray start --block).
STOPPED_WORKER = ("stopped", "stopped", 1, "")
STOPPED_LEADER = ("stopped", "stopped", 0, "")


@pytest.fixture(scope="module")
def with_ray(booted_pair: Pair) -> None:
    for node in booted_pair.both:
        ray.install(node.machine)


@pytest.fixture
def nothing_is_left(booted_pair: Pair, with_ray: None) -> Iterator[None]:
    """When all shards have been stopped, every process of either machine is one of before the test."""
    with nothing_left(*booted_pair.both):
        yield


@pytest.fixture
def nodes(nothing_is_left: None, pair: Pair) -> Pair:
    return pair


def seen_for(seconds: float, look: Callable[[], tuple[object, ...]]) -> set[tuple[object, ...]]:
    """Everything that was so in a span of time."""
    seen = set()
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        seen.add(look())
    return seen


def start(nodes: Pair, id: str, *, port: int = 6379, http: int = 8000, **keys: object) -> list[Shard]:
    """Both ranks, when they are ready. The worker waits, and is let through when the head's port opens."""
    for rank in (1, 0):
        nodes.both[rank].start(id, **ray.rank(rank, port=port, http=http), **keys)
    return [node.wait_state(id, "ready", timeout_s=JOINS_S) for node in nodes.both]


def wait_for_two(nodes: Pair, port: int = 6379) -> None:
    # Ray itself looks every few seconds only.
    nodes.a.machine.wait_for("two nodes", lambda: ray.members(nodes.a, port) == 2, timeout_s=JOINS_S)


def stop(node: Node, id: str) -> tuple[str, str, int, str]:
    node.stop(id)
    return outcome(node.wait_state(id, "stopped", timeout_s=60))


def test_a_worker_waits_for_its_head_and_joins_it_and_either_leaves_nothing(nodes: Pair) -> None:
    a, b = nodes.both
    before = processes(b)
    b.start("r", **ray.rank(1))
    b.wait("r", "waits", lambda shard: bool(shard["Reason"] == WAITS))

    def held() -> tuple[object, ...]:
        shard = b.shard("r")
        return shard["State"], shard["Reason"], shard["Pid"], len(b.processes(shard))

    assert seen_for(HELD_S, held) == {("starting", WAITS, 0, 1)}
    a.start("r", **ray.rank(0))
    a.wait_state("r", "ready", timeout_s=JOINS_S)
    b.wait_state("r", "ready")
    wait_for_two(nodes)
    assert f"[engine] ranks on {A.address} {B.address}" in a.tail("r")
    assert stop(b, "r") == STOPPED_WORKER
    assert_nothing_new(b, before)
    assert stop(a, "r") == STOPPED_LEADER


@pytest.mark.parametrize(
    ("victim", "end"),
    [
        pytest.param(RAYLET, "exited 1", id="raylet"),
        pytest.param(RAY_START, "was killed by SIGKILL", id="ray start"),
    ],
)
def test_nothing_is_left_of_a_node_on_which_a_part_of_ray_was_killed(
    nodes: Pair, victim: str, end: str
) -> None:
    a, b = nodes.both
    before = [processes(node) for node in nodes.both]
    leader, worker = start(nodes, "r", stop_timeout_s=ABORT_S)
    b.kill(ray.pid_of(b, worker, victim))
    failed = b.wait_state("r", "failed", timeout_s=30)
    assert failed["Reason"].splitlines()[0] == f"engine {end}"
    assert_nothing_new(b, before[1])
    a.kill(ray.pid_of(a, leader, victim))
    a.wait("r", "tells", lambda shard: bool(shard["Reason"] == f"sidecar ray-head {end}"), timeout_s=30)
    assert stop(a, "r")[0] == "stopped"
    assert_nothing_new(a, before[0])


def test_a_second_replica_on_the_same_nodes_is_not_touched_by_the_end_of_the_first(nodes: Pair) -> None:
    two = start(nodes, "two", port=6380, http=8001)
    before = [processes(node) for node in nodes.both]
    start(nodes, "one")
    for port in (6379, 6380):
        wait_for_two(nodes, port)
    running = [node.processes(shard) for node, shard in zip(nodes.both, two, strict=True)]
    assert stop(nodes.a, "one") == STOPPED_LEADER
    assert_nothing_new(nodes.a, before[0])
    assert stop(nodes.b, "one") == STOPPED_WORKER
    assert_nothing_new(nodes.b, before[1])
    wait_for_two(nodes, 6380)
    assert [node.processes(shard) for node, shard in zip(nodes.both, two, strict=True)] == running
    assert [node.shard("two")["State"] for node in nodes.both] == ["ready", "ready"]
