"""The life of a shard of `command` with two sidecars, driven by llmgwctl alone."""

import json
import subprocess
from collections.abc import Iterator

import pytest

from tests.machine.monitor import Monitor
from tests.machine.node import Node
from tests.machine.specs import engine
from tests.machine.test_shards import TO_READY, told, told_of

SPEC = f"""
engine = "command"
command = {json.dumps(engine("--port", "8100", "--model", "tiny", "--say", "engine is up"))}
port = 8100
health_path = "/health"
served_model_name = "tiny"

[[sidecars]]
name = "head"
command = {json.dumps(engine("--say", "head is up"))}

[[sidecars]]
name = "side-2"
command = {json.dumps(engine("--say", "side is up"))}
"""


def ctl(node: Node, *words: str) -> subprocess.CompletedProcess[str]:
    return node.machine.run(["/usr/bin/llmgwctl", *words], check=False)


def answered(node: Node, *words: str) -> tuple[int, str, str]:
    done = ctl(node, *words)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def spec(node: Node) -> Iterator[str]:
    file = node.machine.path("/root/a.toml")
    file.write_text(SPEC)
    yield "/root/a.toml"
    file.unlink()


@pytest.fixture
def bus(node: Node) -> Iterator[Monitor]:
    with node.signals() as bus:
        yield bus


def test_a_shard_starts_serves_drains_stops_and_is_forgotten(node: Node, spec: str, bus: Monitor) -> None:
    started = ctl(node, "start", "a", "--file", spec, "--wait")
    assert (started.returncode, started.stdout) == (0, "")
    assert started.stderr.splitlines()[-1] == "a: ready: serves tiny"
    status, printed, _ = answered(node, "status", "a", "--json")
    ready = json.loads(printed)
    assert (status, ready["state"], ready["reason"]) == (0, "ready", "serves tiny")
    pids = node.processes({"ControlGroup": ready["control_group"]})

    assert answered(node, "drain", "a") == (0, "", "")
    status, printed, _ = answered(node, "status", "a", "--json")
    drained = json.loads(printed)
    assert (status, drained["state"], drained["pid"]) == (3, "draining", ready["pid"])

    assert answered(node, "stop", "a")[:2] == (0, "")
    status, printed, _ = answered(node, "status", "a", "--json")
    stopped = json.loads(printed)
    assert (status, stopped["state"], stopped["exit_code"], stopped["exit_signal"]) == (
        3,
        "stopped",
        143,
        "SIGTERM",
    )
    assert (len(pids), node.running(pids), node.scopes()) == (6, [], [])
    lines = ["[engine] engine is up", "[head] head is up", "[side-2] side is up"]
    assert sorted(ctl(node, "logs", "a").stdout.splitlines()) == lines

    assert answered(node, "remove", "a") == (0, "", "")
    refused = "llmgwctl: cannot show shard a: NoSuchShard: no shard 'a' on this node\n"
    assert answered(node, "status", "a") == (4, "", refused)
    bus.wait("it is gone", lambda seen: [one for one in seen if one.member == "InterfacesRemoved"])
    states = [*TO_READY, ("ready", "draining", "drained"), ("draining", "stopped", "stopped")]
    assert told(bus.seen) == [*told_of(states), ("node", "InterfacesRemoved", "/org/llmgw/Node1/shard/a")]


def test_an_engine_that_is_killed_has_failed_and_a_wait_for_it_says_so(
    node: Node, spec: str, bus: Monitor
) -> None:
    assert ctl(node, "start", "a", "--file", spec, "--wait").returncode == 0
    ready = json.loads(ctl(node, "status", "a", "--json").stdout)
    pids = node.processes({"ControlGroup": ready["control_group"]})
    with node.machine.popen(["/usr/bin/llmgwctl", "wait", "a", "--for", "stopped"]) as waiting:
        node.kill(ready["pid"])
        _, complaint = waiting.communicate()
    why = "engine was killed by SIGKILL"
    assert complaint.splitlines()[-1] == f"llmgwctl: cannot wait until shard a is stopped: failed: {why}"
    assert waiting.returncode == 1
    failed = json.loads(ctl(node, "status", "a", "--json").stdout)
    assert {key: failed[key] for key in ("state", "reason", "exit_code", "exit_signal", "pid")} == {
        "state": "failed",
        "reason": why,
        "exit_code": 137,
        "exit_signal": "SIGKILL",
        "pid": 0,
    }
    assert (len(pids), node.running(pids), node.scopes()) == (6, [], [])
    bus.wait_state("a", "failed")
    assert told(bus.seen) == told_of([*TO_READY, ("ready", "failed", why)])


def test_a_start_that_fails_ends_with_1_and_says_why_with_the_engines_last_words(node: Node) -> None:
    status, printed, complaint = answered(
        node, "start", "a", "--engine", "command", "--wait", "--", "/bin/sh", "-c", "echo bye; exit 37"
    )
    assert (status, printed, complaint.splitlines()[-2:]) == (
        1,
        "",
        ["llmgwctl: cannot start shard a: failed: engine exited 37", "  bye"],
    )
    assert answered(node, "logs", "a") == (0, "bye\n", "")


def test_following_goes_on_with_the_next_run_and_says_so(node: Node) -> None:
    start = ("start", "a", "--engine", "command", "--wait", "--", "/bin/sh", "-c", "echo up; exec sleep 1000")
    assert ctl(node, *start).returncode == 0
    with node.machine.popen(["/usr/bin/llmgwctl", "logs", "a", "-f"]) as following:
        assert following.stdout is not None
        lines = [following.stdout.readline()]
        stopped = answered(node, "stop", "a")
        started = ctl(node, *start).returncode
        lines += [following.stdout.readline() for _ in range(2)]
        following.terminate()
    assert (stopped[:2], started, lines) == ((0, ""), 0, ["up\n", "-- new run --\n", "up\n"])


def test_what_is_refused_is_said_in_the_daemons_words(node: Node) -> None:
    refused = (
        "llmgwctl: cannot start shard a: EngineUnavailable: executable /none: No such file or directory\n"
    )
    assert answered(node, "start", "a", "--engine", "command", "--", "/none") == (1, "", refused)
    assert answered(node, "list") == (0, "ID  STATE  ENGINE  MODEL  RANK  ENDPOINT  REASON\n", "")


def test_all_shards_are_stopped_at_once(node: Node) -> None:
    for shard in ("a", "b", "c"):
        node.started(shard, command=engine())
    assert ctl(node, "stop", "--all").returncode == 0
    states = {shard["id"]: shard["state"] for shard in json.loads(ctl(node, "list", "--json").stdout)}
    assert states == {"a": "stopped", "b": "stopped", "c": "stopped"}


def test_a_wait_lasts_through_a_restart_of_the_daemon(node: Node, spec: str) -> None:
    node.machine.path(spec).write_text(SPEC.replace('"--say"', '"--ready-after", "2", "--say"', 1))
    with node.machine.popen(["/usr/bin/llmgwctl", "start", "a", "--file", spec, "--wait"]) as starting:
        assert starting.stderr is not None
        assert starting.stderr.readline().startswith("a: ")
        node.kill_daemon()
        complaint = starting.communicate()[1]
    assert (starting.returncode, complaint.splitlines()[-1]) == (0, "a: ready: serves tiny")


def test_a_daemon_that_is_not_there_is_5_and_stays_away(node: Node) -> None:
    nobody = "llmgwctl: cannot reach llmgwd: nobody owns org.llmgw.Node1 on the bus, is it running?\n"
    with node.without_daemon():
        assert answered(node, "list") == (5, "", nobody)
        assert node.daemon_pid() == 0


def test_an_orphan_is_listed_and_killed(node: Node) -> None:
    ready = node.started("a", command=engine())
    with node.without_daemon():
        node.machine.run(["sh", "-c", "rm -r /var/lib/llmgwd/*"])
    listed = json.loads(ctl(node, "orphans", "--json").stdout)
    assert listed == [
        {
            "unit": ready["Unit"],
            "control_group": ready["ControlGroup"],
            "pids": list(node.processes(ready)),
            "id": "a",
        }
    ]
    assert answered(node, "kill-orphan", ready["Unit"]) == (0, "", "")
    node.machine.wait_for("the orphan has gone", lambda: node.call("ListOrphans") == [])
