"""`llmgwctl stop`: it returns when the shards have ended."""

import pytest

from tests.fakes.command import Outcome
from tests.fakes.node import FakeNode

MISSING = "llmgwctl: cannot stop shard zz: NoSuchShard: no shard zz\n"


@pytest.mark.parametrize("end", ["stopped", "failed"])
def test_a_stop_waits_until_the_shard_has_ended(node: FakeNode, end: str) -> None:
    node.put("a", State="ready")
    node.after("ListShards", ("a", {"State": end, "Reason": ""}))

    assert node.run("stop", "a", "--drain", "5", "--timeout", "1.5") == Outcome(
        0, "", f"a: draining: being stopped\na: {end}\n"
    )
    assert node.calls() == [["StopShard", "a", {"drain_seconds": ["d", 5.0], "timeout_seconds": ["d", 1.5]}]]


def test_a_stop_that_need_not_wait_returns_when_it_has_begun(node: FakeNode) -> None:
    node.put("a", State="ready")

    assert node.run("stop", "a", "--no-wait") == Outcome(0, "", "a: being stopped\n")
    assert node.calls() == [["StopShard", "a", {}]]


@pytest.mark.parametrize("more", [(), ("--no-wait",)])
def test_what_had_ended_before_is_said_and_not_waited_for(node: FakeNode, more: tuple[str, ...]) -> None:
    node.put("a", State="failed", Reason="engine exited 37")
    node.put("b", State="stopped", Reason="stopped")

    assert node.run("stop", "a", "b", *more) == Outcome(0, "", "a: failed already\nb: stopped already\n")


def test_a_shard_that_ended_before_the_first_look_is_said_as_any_other(node: FakeNode) -> None:
    node.put("a", State="ready")
    node.after("StopShard", ("a", {"State": "stopped", "Reason": "did not stop in 2 s, killed"}))

    assert node.run("stop", "a") == Outcome(0, "", "a: stopped: did not stop in 2 s, killed\n")


def test_a_reason_that_says_no_more_than_the_state_is_left_out(node: FakeNode) -> None:
    node.put("a", State="ready")
    node.after("StopShard", ("a", {"State": "stopped", "Reason": "stopped"}))

    assert node.run("stop", "a") == Outcome(0, "", "a: stopped\n")


def test_a_shard_that_is_forgotten_while_it_is_waited_for_has_ended(node: FakeNode) -> None:
    node.put("b", State="ready")
    stop = node.begin("stop", "b")
    node.await_answer("ListShards")
    node.do("remove", id="b")

    assert stop.finish() == Outcome(0, "", "b: draining: being stopped\nb: removed\n")


def test_all_live_shards_are_stopped_and_waited_for(node: FakeNode) -> None:
    for shard_id, state in (("a", "ready"), ("b", "loading"), ("c", "failed")):
        node.put(shard_id, State=state)
    stop = node.begin("stop", "--all", "--timeout", "3")
    node.await_answer("ListShards", 2)
    node.change("b", State="stopped", Reason="")
    node.change("a", State="stopped", Reason="")

    assert stop.finish() == Outcome(
        0, "", "a: draining: being stopped\nb: draining: being stopped\nb: stopped\na: stopped\n"
    )
    assert node.calls() == [["StopAll", {"timeout_seconds": ["d", 3.0]}]]


def test_stopping_all_of_nothing_is_done_at_once(node: FakeNode) -> None:
    node.put("a", State="failed")

    assert node.run("stop", "--all") == Outcome(0, "", "nothing to stop\n")


def test_one_that_is_refused_does_not_keep_the_others_from_being_stopped(node: FakeNode) -> None:
    node.put("a", State="ready")
    node.after("ListShards", ("a", {"State": "stopped", "Reason": ""}))

    outcome = node.run("stop", "zz", "a")

    assert outcome == Outcome(4, "", MISSING + "a: draining: being stopped\na: stopped\n")


def test_a_refusal_counts_more_than_a_missing_shard(node: FakeNode) -> None:
    node.put("a", State="draining")
    node.fail("StopShard", "org.llmgw.Node1.Error.Unkillable", "Unkillable: pid 71 (D)")

    assert node.run("stop", "zz", "a") == Outcome(
        1, "", MISSING + "llmgwctl: cannot stop shard a: Unkillable: pid 71 (D)\n"
    )


def test_what_cannot_be_killed_ends_the_waiting(node: FakeNode) -> None:
    node.put("a", State="ready")
    node.after("ListShards", ("a", {"Reason": "unkillable: pid 71 (D)"}))

    assert node.run("stop", "a") == Outcome(
        1, "", "a: draining: being stopped\nllmgwctl: cannot stop shard a: unkillable: pid 71 (D)\n"
    )


def test_options_that_the_daemon_refuses_are_told(node: FakeNode) -> None:
    node.put("a", State="ready")
    node.fail("StopShard", "org.llmgw.Node1.Error.InvalidSpec", "InvalidSpec: drain_seconds: got nan")

    assert node.run("stop", "a", "--drain", "nan") == Outcome(
        1, "", "llmgwctl: cannot stop shard a: InvalidSpec: drain_seconds: got nan\n"
    )


def test_a_stop_whose_answer_is_lost_is_asked_for_again(node: FakeNode) -> None:
    node.put("a", State="ready")
    node.do("die on", member="StopShard")
    stop = node.begin("stop", "a", "--no-wait")
    node.wait_until_dead()
    node.start({"Id": "a", "State": "ready"})

    assert stop.finish() == Outcome(0, "", "a: being stopped\n")
    assert node.calls() == [["StopShard", "a", {}]]
