"""Stopping: nothing survives it, nobody beside it is touched, and the shard says what it took."""

import re

import pytest

from tests.machine.node import Node, Refused, call, outcome
from tests.machine.specs import engine, serving
from tests.machine.spelling import Typed

DETACHED = ("--child", "plain", "--child", "setsid", "--child", "daemon")


@pytest.mark.parametrize("adopted", [False, True], ids=["", "after an adoption"])
def test_detached_children_that_ignore_sigterm_are_gone_after_a_stop_and_no_stranger_is(
    node: Node, adopted: bool
) -> None:
    with node.service("neighbour", engine(*DETACHED), slice="llmgw.slice") as neighbour:
        group = {"ControlGroup": "/llmgw.slice/neighbour.service"}
        node.machine.wait_for("the neighbour has forked", lambda: len(node.processes(group)) == 4)
        strangers = node.processes(group)
        node.start("a", command=engine(*DETACHED, "--say", "up"), stop_timeout_s=1)
        node.machine.wait_for("its children are there", lambda: node.tail("a") == ["up"])
        ready = node.wait_state("a", "ready")
        if adopted:
            node.kill_daemon()
        pids = node.processes(ready)
        node.stop("a")
        stopped = node.wait_state("a", "stopped")
        assert (node.processes(stopped), node.running(pids)) == ((), [])
        assert outcome(stopped) == ("stopped", "did not stop in 1 s, killed", 143, "SIGTERM")
        assert len(pids) == 5  # gate, engine, three children
        assert (neighbour in strangers, node.running(strangers)) == (True, list(strangers))


def test_an_engine_that_ends_by_itself_has_failed_only_when_nothing_of_it_is_left(node: Node) -> None:
    node.start("a", command=engine(*DETACHED, "--say", "up", "--port", "8100"), stop_timeout_s=1)
    node.machine.wait_for("its children are there", lambda: node.tail("a") == ["up"])
    ready = node.wait_state("a", "ready")
    pids = node.processes(ready)
    node.get(8100, "/exit?5")
    ended = node.wait("a", "has lost its engine", lambda shard: shard["Pid"] == 0)
    survivors = node.running(pids)
    assert (ended["State"], len(survivors)) == ("ready", 3)
    failed = node.wait_state("a", "failed")
    assert (node.running(pids), outcome(failed)) == ([], ("failed", "engine exited 5", 5, "SIGKILL"))


def test_an_engine_that_needs_sigkill_says_so(node: Node) -> None:
    node.started_deaf(stop_timeout_s=1)
    node.stop("a")
    expected = ("stopped", "did not stop in 1 s, killed", 137, "SIGKILL")
    assert outcome(node.wait_state("a", "stopped")) == expected


def test_an_engine_that_ends_well_at_sigterm_is_stopped_with_its_own_status(node: Node) -> None:
    node.start("a", command=engine("--term-status", "3", "--say", "up"))
    node.machine.wait_for("it listens to SIGTERM", lambda: node.tail("a") == ["up"])
    node.wait_state("a", "ready")
    node.stop("a")
    assert outcome(node.wait_state("a", "stopped")) == ("stopped", "stopped", 3, "")


def test_a_second_stop_is_the_same_as_one(node: Node) -> None:
    with node.signals() as bus:
        node.started_deaf(stop_timeout_s=1)
        node.stop("a")
        node.stop("a")
        node.stop("a", timeout_seconds=1.0)
        stopped = node.wait_state("a", "stopped")
        node.stop("a")
        bus.wait_state("a", "stopped")
    assert node.shard("a") == stopped
    assert bus.states("a")[-2:] == [
        ("ready", "draining", "stopping"),
        ("draining", "stopped", "did not stop in 1 s, killed"),
    ]


def test_a_stop_with_no_time_kills_at_once(node: Node) -> None:
    node.started_deaf()
    node.stop("a", timeout_seconds=0.0)
    expected = ("stopped", "did not stop in 0 s, killed", 137, "SIGKILL")
    assert outcome(node.wait_state("a", "stopped", timeout_s=5)) == expected


def test_a_shorter_limit_takes_over_from_that_of_a_stop_under_way(node: Node) -> None:
    node.started_deaf()
    node.stop("a")
    stopping = node.wait_state("a", "draining")
    assert stopping["Reason"] == "stopping"
    node.stop("a", timeout_seconds=0.2)
    expected = ("stopped", "did not stop in 0.2 s, killed", 137, "SIGKILL")
    assert outcome(node.wait_state("a", "stopped", timeout_s=5)) == expected


def test_a_longer_limit_does_not_take_over(node: Node) -> None:
    node.started_deaf()
    node.stop("a", timeout_seconds=0.5)
    node.stop("a", timeout_seconds=50)
    expected = ("stopped", "did not stop in 0.5 s, killed", 137, "SIGKILL")
    assert outcome(node.wait_state("a", "stopped", timeout_s=5)) == expected


def test_a_limit_beyond_the_specs_own_is_refused(node: Node) -> None:
    node.started("a", command=engine(), stop_timeout_s=5)
    text = "InvalidSpec: timeout_seconds: got 6, takes 0 to 5 (the spec's stop_timeout_s)"
    with pytest.raises(Refused, match=f"^{re.escape(text)}$"):
        node.stop("a", timeout_seconds=6)
    assert node.shard("a")["State"] == "ready"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"timeout": 1}, "timeout: unknown key, did you mean timeout_seconds?"),
        ({"drain_seconds": -1}, "drain_seconds: got -1, takes 0 to 1000000000 seconds"),
        ({"drain_seconds": Typed("d", ("nan",))}, "drain_seconds: got nan, takes 0 to 1000000000 seconds"),
        (
            {"timeout_seconds": Typed("d", ("inf",))},
            "timeout_seconds: got inf, takes 0 to 1000000000 seconds",
        ),
        ({"timeout_seconds": "1"}, "timeout_seconds: got '1', takes 0 to 1000000000 seconds"),
    ],
)
def test_a_wrong_option_is_refused_by_name(node: Node, options: dict[str, object], text: str) -> None:
    node.started("a", command=engine())
    with pytest.raises(Refused, match=f"^InvalidSpec: {re.escape(text)}$"):
        node.stop("a", **options)
    assert node.shard("a")["State"] == "ready"


def test_stop_all_stops_every_shard_each_within_its_own_limit(node: Node) -> None:
    node.started_deaf("deaf", stop_timeout_s=1)
    node.started("plain", command=engine())
    node.started("serving", **serving(8100))
    node.call("StopAll", "a{sv}", "1", "timeout_seconds", "d", "30")
    ended = {one: outcome(node.wait_state(one, "stopped")) for one in ("deaf", "plain", "serving")}
    assert ended == {
        "deaf": ("stopped", "did not stop in 1 s, killed", 137, "SIGKILL"),
        "plain": ("stopped", "stopped", 143, "SIGTERM"),
        "serving": ("stopped", "stopped", 143, "SIGTERM"),
    }


def test_stopping_a_shard_that_is_not_there_is_refused(node: Node) -> None:
    with pytest.raises(Refused, match=r"^NoSuchShard: no shard 'a' on this node$"):
        node.stop("a")


def test_the_engine_is_asked_before_its_sidecars_are(node: Node) -> None:
    head = {"name": "head", "command": engine("--say", "head up", "--last-words", "head asked")}
    node.start("a", sidecars=[head], command=engine("--say", "up", "--last-words", "engine asked"))
    node.machine.wait_for("both are up", lambda: len(node.tail("a")) == 2)
    node.stop("a")
    node.wait_state("a", "stopped")
    assert node.tail("a")[2:] == ["[engine] engine asked", "[head] head asked"]


def test_an_engine_with_sidecars_that_is_deaf_has_half_of_the_time_for_itself(node: Node) -> None:
    head = {"name": "head", "command": engine("--say", "head up", "--last-words", "head asked")}
    start = {"sidecars": [head], "command": engine("--deaf", "--say", "up"), "stop_timeout_s": 2}
    node.start("a", **start)
    node.machine.wait_for("both are up", lambda: len(node.tail("a")) == 2)
    node.stop("a")
    assert node.tail("a")[2:] == []
    node.machine.wait_for("the sidecar was asked", lambda: node.tail("a")[2:] == ["[head] head asked"])
    assert node.shard("a")["State"] == "draining"
    expected = ("stopped", "did not stop in 2 s, killed", 137, "SIGKILL")
    assert outcome(node.wait_state("a", "stopped")) == expected


def test_a_stop_at_any_moment_of_a_start_is_quick_and_clean(node: Node) -> None:
    """A SIGTERM between the gate's opening and the program's start would be swallowed."""
    script = f"""
        for id in $(seq 30); do
            {" ".join(call("StartShard", "'sa{sv}'", "$id", "2"))} \\
                engine s command command as 2 /usr/bin/sleep 99
            sleep 0.00$((id % 10))
            {" ".join(call("StopShard", "'sa{sv}'", "$id", "0"))}
        done
    """
    node.machine.run(["sh", "-ec", script])
    node.machine.wait_for("all have stopped", lambda: states(node) == {"stopped"})
    outcomes = {outcome(shard) for shard in node.shards().values()}
    assert outcomes <= {("stopped", "stopped", 143, "SIGTERM"), ("stopped", "stopped", -1, "")}


def states(node: Node) -> set[str]:
    return {shard["State"] for shard in node.shards().values()}
