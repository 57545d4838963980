"""`llmgwctl wait`, and what all waiting has in common."""

import asyncio
from collections.abc import Mapping

import pytest

from llmgwd.bus.connection import Connection
from llmgwd.cli.progress import LinePerChange
from llmgwd.cli.waiting import reach, until
from llmgwd.client.errors import Unreachable
from llmgwd.client.node import NodeClient
from llmgwd.model.lifecycle import State
from tests.fakes.command import Outcome
from tests.fakes.node import FakeNode

LATER: Mapping[str, set[str]] = {
    "pending": {"starting", "loading", "ready", "draining", "stopped", "failed"},
    "starting": {"loading", "ready", "draining", "stopped", "failed"},
    "loading": {"ready", "draining", "stopped", "failed"},
    "ready": {"draining", "stopped", "failed"},
    "draining": {"stopped", "failed"},
    "stopped": set(),
    "failed": set(),
}


@pytest.mark.parametrize("wanted", State)
@pytest.mark.parametrize("state", State)
def test_a_state_that_can_still_come_is_waited_for(state: State, wanted: State) -> None:
    verdict = reach(wanted)({"State": state, "Reason": "why"})

    assert verdict == ("" if state == wanted else None if wanted in LATER[state] else f"{state}: why")


def test_a_wait_ends_when_the_state_has_come(node: FakeNode) -> None:
    node.put("a", State="loading", Reason="")
    node.after("ListShards", ("a", {"State": "ready"}))

    assert node.run("wait", "a", "--for", "ready") == Outcome(0, "", "a: loading\na: ready\n")


def test_a_wait_for_what_is_so_already_says_so(node: FakeNode) -> None:
    node.put("a", State="ready", Reason="serves m")

    assert node.run("wait", "a") == Outcome(0, "", "a: ready: serves m\n")


def test_a_state_that_was_passed_at_once_has_still_come(node: FakeNode) -> None:
    node.put("a", State="starting")
    node.after("ListShards", ("a", {"State": "loading"}), ("a", {"State": "ready"}))

    assert node.run("wait", "a", "--for", "loading") == Outcome(0, "", "a: starting\na: loading\n")


def test_a_shard_that_ended_otherwise_is_said_with_its_reason(node: FakeNode) -> None:
    node.put("a", State="failed", Reason="exited with status 37")

    assert node.run("wait", "a", "--for", "ready") == Outcome(
        1, "", "llmgwctl: cannot wait until shard a is ready: failed: exited with status 37\n"
    )


def test_a_wait_for_a_shard_that_is_removed_ends(node: FakeNode) -> None:
    node.put("a", State="draining")
    wait = node.begin("wait", "a", "--for", "failed")
    node.await_answer("ListShards")
    node.do("remove", id="a")

    assert wait.finish() == Outcome(
        1, "", "a: draining\nllmgwctl: cannot wait until shard a is failed: it was removed\n"
    )


def test_a_wait_gives_up_at_its_time_limit(node: FakeNode) -> None:
    node.put("a", State="loading", Reason="answers 503")

    assert node.run("wait", "a", "--for", "ready", "--timeout", "0.1") == Outcome(
        1,
        "",
        "a: loading: answers 503\nllmgwctl: gave up after 0.1 s: shard a is still loading: answers 503\n",
    )
    node.change("a", State="ready", Reason="serves m")
    assert node.run("wait", "a", "--for", "stopped", "--timeout", "0") == Outcome(
        1, "", "a: ready: serves m\nllmgwctl: gave up after 0 s: shard a is still ready\n"
    )


def test_nobody_can_wait_for_a_shard_that_is_not_there(node: FakeNode) -> None:
    assert node.run("wait", "a", "--for", "ready") == Outcome(
        4, "", "llmgwctl: cannot wait until shard a is ready: NoSuchShard: no shard a\n"
    )


def test_a_wait_learns_what_happened_while_the_daemon_was_away(node: FakeNode) -> None:
    node.put("a", State="loading")
    wait = node.begin("wait", "a", "--for", "ready")
    node.await_answer("ListShards")
    node.kill()
    node.start({"Id": "a", "State": "failed", "Reason": "exited with status 37"})

    assert wait.finish() == Outcome(
        1,
        "",
        "a: loading\nllmgwctl: cannot wait until shard a is ready: failed: exited with status 37\n",
    )


async def test_a_daemon_that_does_not_come_back_ends_the_waiting(node: FakeNode) -> None:
    node.put("a", State="loading")
    client = NodeClient(Connection(node.address, send_buffer=False))
    await client.connect()
    waiting = asyncio.create_task(until(client, ["a"], reach("ready"), LinePerChange(), patience_s=0.05))
    await asyncio.to_thread(node.await_answer, "ListShards")
    await asyncio.to_thread(node.kill)

    with pytest.raises(Unreachable, match=r"^it went away and did not come back$"):
        await waiting
    await client.close()
