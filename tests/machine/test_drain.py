"""Draining: the engine goes on, takes its time for open requests, and never becomes ready again."""

import pytest

from tests.machine.node import Node, Refused, outcome
from tests.machine.specs import engine, serving, waiting


def test_a_drained_shard_goes_on_and_draining_it_again_changes_nothing(node: Node) -> None:
    with node.signals() as bus:
        ready = node.started("a", **serving(8100))
        node.call("DrainShard", "s", "a")
        node.call("DrainShard", "s", "a")
        drained = node.shard("a")
        node.get(8100, "/health")
        bus.wait_state("a", "draining")
    assert (drained["State"], drained["Reason"], drained["Pid"]) == ("draining", "drained", ready["Pid"])
    assert bus.states("a")[-1:] == [("ready", "draining", "drained")]


def test_a_drain_while_the_engine_loads_sticks(node: Node) -> None:
    with node.signals() as bus:
        node.start("a", **serving(8100, "--ready-after", "0.5"))
        node.wait_state("a", "loading")
        node.call("DrainShard", "s", "a")
        up = node.wait("a", "answers", lambda shard: shard["Health"] == "ok")
        node.stop("a")
        node.wait_state("a", "stopped")
        bus.wait_state("a", "stopped")
    assert up["State"] == "draining"
    assert [(old, new) for old, new, _ in bus.states("a")][2:] == [
        ("starting", "loading"),
        ("loading", "draining"),
        ("draining", "stopped"),
    ]


def test_a_drain_while_a_shard_waits_for_its_leader_sticks(node: Node) -> None:
    node.start("a", **serving(8100), **waiting(8200))
    node.wait("a", "waits", lambda shard: "waits" in shard["Reason"])
    node.call("DrainShard", "s", "a")
    assert (node.shard("a")["State"], node.shard("a")["Pid"]) == ("draining", 0)
    with node.service("leader", engine("--port", "8200")):
        up = node.wait("a", "answers", lambda shard: shard["Health"] == "ok")
        assert (up["State"], up["Pid"] > 0) == ("draining", True)


def test_draining_what_has_ended_is_refused(node: Node) -> None:
    node.started("a", command=engine())
    node.stop("a")
    node.wait_state("a", "stopped")
    with pytest.raises(Refused, match=r"^WrongState: shard a is stopped, only a live one can be drained$"):
        node.call("DrainShard", "s", "a")


def test_an_engine_that_is_killed_while_draining_is_stopped(node: Node) -> None:
    ready = node.started("a", command=engine())
    node.call("DrainShard", "s", "a")
    node.kill(ready["Pid"])
    expected = ("stopped", "engine was killed by SIGKILL", 137, "SIGKILL")
    assert outcome(node.wait_state("a", "stopped")) == expected


def test_a_stop_with_drain_time_lets_a_request_finish(node: Node) -> None:
    node.started("a", **serving(8100))
    with node.reader(8100) as stream:
        node.stop("a", drain_seconds=60.0)
        finishing = node.shard("a")
        assert (finishing["State"], finishing["Reason"]) == ("draining", "finishing requests")
        node.get(8100, "/health")
        assert node.shard("a")["Pid"] == finishing["Pid"]
        stream.kill()
    assert outcome(node.wait_state("a", "stopped")) == ("stopped", "stopped", 143, "SIGTERM")


def test_a_request_that_does_not_finish_in_the_drain_time_is_cut(node: Node) -> None:
    node.started("a", **serving(8100))
    with node.reader(8100):
        node.stop("a", drain_seconds=0.5)
        assert outcome(node.wait_state("a", "stopped")) == ("stopped", "stopped", 143, "SIGTERM")


def test_a_second_stop_without_drain_time_ends_the_waiting_for_requests(node: Node) -> None:
    node.started("a", **serving(8100))
    with node.reader(8100):
        node.stop("a", drain_seconds=60)
        node.stop("a", drain_seconds=0)
        assert outcome(node.wait_state("a", "stopped")) == ("stopped", "stopped", 143, "SIGTERM")
