"""`llmgwctl events`: each change of state, one a line, seen at once."""

import json
import re
from signal import SIGTERM
from typing import Any

from tests.fakes.command import Command, Outcome
from tests.fakes.node import FakeNode


def lines(command: Command, count: int) -> list[str]:
    return [command.line() for _ in range(count)]


def changes(command: Command, count: int) -> list[dict[str, Any]]:
    keys = ("event", "id", "old", "new", "state", "reason", "engine")
    return [
        {key: value for key, value in json.loads(line).items() if key in keys}
        for line in lines(command, count)
    ]


def test_people_see_time_shard_and_change(node: FakeNode) -> None:
    events = node.begin("events")
    node.await_answer("ListShards")
    node.put("a")
    node.change("a", State="starting", Reason="at the gate")
    node.change("a", Reason="at the next gate")
    node.change("a", State="failed", Reason="lost\nits gate")
    node.do("remove", id="a")
    seen = lines(events, 4)
    events.signal(SIGTERM)

    assert [re.sub(r"^\d\d:\d\d:\d\d ", "T ", line) for line in seen] == [
        "T a: pending\n",
        "T a: pending -> starting: at the gate\n",
        "T a: starting -> failed: lost\\nits gate\n",
        "T a: removed\n",
    ]
    assert events.finish() == Outcome(-15, "")


def test_programs_get_the_status_with_what_became_of_it(node: FakeNode) -> None:
    node.put("a", State="ready")
    events = node.begin("events", "--json")
    node.await_answer("ListShards")
    node.put("b", Engine="vllm")
    node.change("a", State="draining", Reason="being stopped")
    node.change("a", State="stopped", Reason="")
    node.do("remove", id="a")
    seen = changes(events, 4)
    events.signal(SIGTERM)
    events.finish()

    shard = {"event": "shard", "id": "a", "engine": "command"}
    assert seen == [
        {
            "event": "shard",
            "id": "b",
            "engine": "vllm",
            "old": "",
            "new": "pending",
            "state": "pending",
            "reason": "",
        },
        shard | {"old": "ready", "new": "draining", "state": "draining", "reason": "being stopped"},
        shard | {"old": "draining", "new": "stopped", "state": "stopped", "reason": ""},
        {"event": "removed", "id": "a"},
    ]


def test_events_tell_what_happened_while_the_daemon_was_away(node: FakeNode) -> None:
    for shard_id in ("a", "b", "c"):
        node.put(shard_id, State="ready")
    events = node.begin("events", "--json")
    node.await_answer("ListShards")
    node.kill()
    node.start(
        {"Id": "a", "State": "ready"},
        {"Id": "b", "State": "failed", "Reason": "exited with status 37"},
        {"Id": "d", "State": "loading"},
    )
    node.await_answer("ListShards")
    node.change("d", State="ready")
    seen = changes(events, 4)
    events.signal(SIGTERM)

    assert events.finish() == Outcome(
        -15, "", "llmgwctl: llmgwd went away, waiting for it\nllmgwctl: llmgwd is back\n"
    )
    new = {"event": "shard", "id": "d", "engine": "command", "reason": ""}
    failed = {"old": "ready", "new": "failed", "state": "failed", "reason": "exited with status 37"}
    assert seen == [
        {"event": "removed", "id": "c"},
        {"event": "shard", "id": "b", "engine": "command", **failed},
        new | {"old": "", "new": "loading", "state": "loading"},
        new | {"old": "loading", "new": "ready", "state": "ready"},
    ]


def test_events_end_when_nobody_reads(node: FakeNode) -> None:
    events = node.begin("events")
    node.await_answer("ListShards")
    node.put("a")
    lines(events, 1)
    events.stop_reading()

    assert events.finish() == Outcome(141, "")
