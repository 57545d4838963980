"""The life of a shard of `command` with two sidecars, driven by busctl alone: every word of it, in order."""

from collections.abc import Sequence

import pytest

from tests.machine.monitor import Seen
from tests.machine.node import MANAGER, ROOT, SHARD, Node, Refused, Shard
from tests.machine.specs import engine, fake, serving

OBJECT_MANAGER = "org.freedesktop.DBus.ObjectManager"
PROPERTIES = "org.freedesktop.DBus.Properties"

SIDECARS = [
    {"name": "head", "command": engine("--say", "head is up")},
    {"name": "side-2", "command": engine("--say", "side is up")},
]

BEGIN = [("", "pending", "accepted"), ("pending", "starting", "held at the gate")]
TO_READY = [
    *BEGIN,
    ("starting", "loading", "the engine was started"),
    ("loading", "ready", "serves tiny"),
]


def told(seen: Sequence[Seen]) -> list[tuple[object, ...]]:
    """All signals but PropertiesChanged: whose they are, and what they say."""
    names = {ROOT: "node", f"{ROOT}/shard/a": "shard"}
    return [
        (names[one.path], one.member, *(one.body if one.member.endswith("Changed") else one.body[:1]))
        for one in seen
        if one.interface in {MANAGER, SHARD, OBJECT_MANAGER}
    ]


def told_of(states: Sequence[tuple[str, str, str]]) -> list[tuple[object, ...]]:
    """The same, as it has to be for a new shard that goes through these states."""
    first, *others = states
    return [
        ("node", "InterfacesAdded", f"{ROOT}/shard/a"),
        ("node", "ShardStateChanged", "a", *first),
        *(
            signal
            for change in others
            for signal in (("shard", "StateChanged", *change), ("node", "ShardStateChanged", "a", *change))
        ),
    ]


def followed(seen: Sequence[Seen]) -> Shard:
    """The properties as somebody has them who only listens: what was added, then each change."""
    properties: Shard = {}
    for one in seen:
        if one.member == "InterfacesAdded" and one.body[0] == f"{ROOT}/shard/a":
            properties = dict(one.body[1][SHARD])
        if one.interface == PROPERTIES and one.path == f"{ROOT}/shard/a":
            properties |= one.body[1]
        if one.interface == SHARD:
            assert properties["State"] == one.body[1], one
    return properties


def test_a_shard_with_two_sidecars_starts_serves_drains_and_stops(node: Node) -> None:
    with node.signals() as bus:
        path = node.start("a", sidecars=SIDECARS, **serving(8100))
        assert path == f"{ROOT}/shard/a"
        ready = node.wait_state("a", "ready")
        pids = node.processes(ready)
        node.call("DrainShard", "s", "a")
        drained = node.wait_state("a", "draining")
        assert node.processes(drained) == pids
        node.stop("a")
        stopped = node.wait_state("a", "stopped")
        bus.wait_state("a", "stopped")
    assert told(bus.seen) == told_of(
        [*TO_READY, ("ready", "draining", "drained"), ("draining", "stopped", "stopped")]
    )
    assert followed(bus.seen) == stopped
    assert {key: stopped[key] for key in ("ExitCode", "ExitSignal", "Pid", "Health")} == {
        "ExitCode": 143,
        "ExitSignal": "SIGTERM",
        "Pid": 0,
        "Health": "unknown",
    }
    # three gates and what is behind them
    assert (len(pids), node.running(pids), node.scopes()) == (6, [], [])


def test_an_engine_that_is_killed_fails_its_shard_and_takes_the_sidecars_along(node: Node) -> None:
    with node.signals() as bus:
        node.start("a", sidecars=SIDECARS, **serving(8100))
        ready = node.wait_state("a", "ready")
        pids = node.processes(ready)
        node.kill(ready["Pid"])
        failed = node.wait_state("a", "failed")
        bus.wait_state("a", "failed")
    assert told(bus.seen) == told_of([*TO_READY, ("ready", "failed", "engine was killed by SIGKILL")])
    assert followed(bus.seen) == failed
    assert (failed["ExitCode"], failed["ExitSignal"], failed["OomKills"]) == (137, "SIGKILL", 0)
    assert (len(pids), node.running(pids), node.processes(failed)) == (6, [], ())


def test_the_properties_of_a_ready_shard_say_what_it_is(node: Node) -> None:
    ready = node.started("a", sidecars=SIDECARS, **serving(8100))
    node.wait("a", "is well", lambda shard: shard["Health"] == "ok")
    gates = node.processes(ready)
    assert {key: value for key, value in node.shard("a").items() if key != "Spec"} == {
        "Id": "a",
        "ReplicaId": "a",
        "Rank": 0,
        "Nodes": 1,
        "Engine": "command",
        "Model": "",
        "State": "ready",
        "Reason": "serves tiny",
        "Health": "ok",
        "Pid": ready["Pid"],
        "ExitCode": -1,
        "ExitSignal": "",
        "OomKills": 0,
        "Started": ready["Started"],
        "Ready": ready["Ready"],
        "Endpoint": "http://127.0.0.1:8100",
        "Unit": "llmgw-shard-a.scope",
        "InvocationId": node.systemctl("show", "--value", "--property=InvocationID", "llmgw-shard-a.scope"),
        "ControlGroup": "/llmgw.slice/llmgw-shard-a.scope",
        "Adopted": False,
        "Gpus": [],
    }
    assert ready["Pid"] in gates
    assert "--port 8100" in node.machine.run(["ps", "-o", "args=", str(ready["Pid"])]).stdout
    assert 0 < ready["Started"] < ready["Ready"]


def test_output_of_every_process_is_told_apart_and_filed_under_the_scope(node: Node) -> None:
    node.started("told", sidecars=SIDECARS, **serving(8100, "--say", "engine is up"))
    lines = ["[engine] engine is up", "[head] head is up", "[side-2] side is up"]
    node.machine.wait_for("all have spoken", lambda: sorted(node.tail("told")) == lines)
    node.stop("told")
    node.wait_state("told", "stopped")
    assert sorted(node.tail("told")) == lines
    filed = node.machine.journal(
        "--namespace=llmgw", "--unit=llmgw-shard-told.scope", "--output=cat", "SYSLOG_IDENTIFIER=told/side-2"
    )
    assert filed == "side is up\n"


def test_output_that_is_no_text_can_be_read_and_is_not_lost(node: Node) -> None:
    node.started("a", command=fake("chatty", "300", "2000"))
    tail = node.machine.wait_for("it has spoken", lambda: node.tail("a", 1000)[-1:] and node.tail("a", 1000))
    hard = ["\ufffd\ufffd\ufffd not UTF-8", "  3 %", "red\tand a bell\\x07", "a", "NUL", "emoji 🦙"]
    numbered = [f"line {number} ".ljust(2000, "x") for number in range(300)]
    assert tail == [*hard, *numbered]


def test_a_tail_is_as_long_as_asked_for_and_refused_beyond_the_most(node: Node) -> None:
    node.started("a", command=engine(*(part for n in range(30) for part in ("--say", f"line {n}"))))
    node.machine.wait_for("it has spoken", lambda: len(node.tail("a", 30)) == 30)
    assert node.tail("a", 3) == ["line 27", "line 28", "line 29"]
    with pytest.raises(Refused, match=r"^LimitExceeded: at most 10240 lines at once, asked for 10241$"):
        node.tail("a", 10241)


def test_an_engine_that_answers_for_another_model_is_not_ready_in_time(node: Node) -> None:
    command = engine("--port", "8100", "--model", "other", "--model", "more")
    node.start("a", **serving(8100) | {"command": command}, ready_timeout_s=0.6)
    failed = node.wait_state("a", "failed")
    assert failed["Reason"] == "not ready in 0.6 s: serves other, more, expected tiny"


def test_an_engine_that_is_still_loading_is_not_ready_in_time(node: Node) -> None:
    node.start("a", **serving(8100, "--ready-after", "60", "--say", "loading"), ready_timeout_s=0.6)
    failed = node.wait_state("a", "failed")
    assert failed["Reason"] == "not ready in 0.6 s: answers 503: Loading model"


def test_a_stranger_on_the_port_does_not_make_a_shard_ready(node: Node) -> None:
    with node.service("stranger", engine("--port", "8100", "--model", "tiny")) as stranger:
        node.start("a", command=engine(), port=8100, health_path="/health", served_model_name="tiny")
        met = node.wait("a", "meets the stranger", lambda shard: "another" in shard["Reason"])
    assert (met["State"], met["Reason"]) == (
        "loading",
        f"another process (pid {stranger}, python3) listens on 8100",
    )


def test_health_tells_of_an_engine_that_no_longer_answers(node: Node) -> None:
    ready = node.started("a", **serving(8100))
    node.wait("a", "is well", lambda shard: shard["Health"] == "ok")
    node.get(8100, "/sick")
    failing = node.wait("a", "is failing", lambda shard: shard["Health"] == "failing")
    assert (failing["State"], failing["Pid"]) == ("ready", ready["Pid"])
    node.get(8100, "/well")
    node.wait("a", "is well again", lambda shard: shard["Health"] == "ok")
