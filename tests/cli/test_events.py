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


def test_people_see_health_and_reason_of_what_is_ready_and_what_holds_up_a_stop(node: FakeNode) -> None:
    node.put("a", State="ready", Reason="serves m")
    events = node.begin("events")
    node.await_answer("ListShards")
    node.change("a", Health="ok", Pid=7)
    node.change("a", Reason="sidecar head exited 0")
    node.change("a", Health="failing", Reason="did not answer 3 times: answers 503")
    node.change("a", Health="ok", Reason="serves m")
    node.change("a", State="draining", Reason="being stopped", Health="unknown")
    node.change("a", Reason="unkillable: pid 71 (D)")
    node.change("a", State="stopped", Reason="stopped")
    seen = lines(events, 6)
    events.signal(SIGTERM)

    assert [re.sub(r"^\d\d:\d\d:\d\d ", "T ", line) for line in seen] == [
        "T a: ready: sidecar head exited 0\n",
        "T a: ready, failing: did not answer 3 times: answers 503\n",
        "T a: ready: serves m\n",
        "T a: ready -> draining: being stopped\n",
        "T a: draining: unkillable: pid 71 (D)\n",
        "T a: draining -> stopped\n",
    ]
    assert events.finish() == Outcome(-15, "")


def test_programs_get_health_and_reason_with_what_they_were(node: FakeNode) -> None:
    node.put("a", State="ready", Reason="serves m", Health="ok")
    events = node.begin("events", "--json")
    node.await_answer("ListShards")
    node.change("a", Reason="sidecar head exited 0")
    node.change("a", Health="failing", Reason="did not answer 3 times: answers 503")
    node.change("a", Pid=7)
    node.change("a", Health="ok", Reason="serves m")
    seen = changes(events, 3)
    events.signal(SIGTERM)
    events.finish()

    shard = {"id": "a", "engine": "command", "state": "ready"}
    failing = "did not answer 3 times: answers 503"
    ended = "sidecar head exited 0"
    assert seen == [
        shard | {"event": "reason", "old": "serves m", "new": ended, "reason": ended},
        shard | {"event": "health", "old": "ok", "new": "failing", "reason": failing},
        shard | {"event": "health", "old": "failing", "new": "ok", "reason": "serves m"},
    ]


def test_events_tell_of_health_that_changed_while_the_daemon_was_away(node: FakeNode) -> None:
    node.put("a", State="ready", Health="ok")
    node.put("b", State="ready", Health="ok")
    events = node.begin("events")
    node.await_answer("ListShards")
    node.kill()
    node.start(
        {"Id": "a", "State": "ready", "Health": "failing", "Reason": "no answer"},
        {"Id": "b", "State": "ready", "Health": "unknown"},
    )
    node.await_answer("ListShards")
    seen = events.line()
    events.signal(SIGTERM)

    assert seen[len("00:00:00") :] == " a: ready, failing: no answer\n"
    assert events.finish().out == ""


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
