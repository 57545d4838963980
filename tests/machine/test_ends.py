"""Engines that end by themselves or by another's hand: what the shard and the journal say of it."""

from typing import Any

import pytest

from tests.machine.node import Node, outcome
from tests.machine.specs import engine, serving

LINES = tuple(part for number in range(12) for part in ("--say", f"line {number}"))


def entry_of_failure(node: Node, id: str) -> dict[str, Any]:
    """The daemon's entry about the end of a shard, apart from what journald adds to it."""
    entries = node.machine.wait_for(
        "the journal has it", lambda: node.log(f"LLMGW_SHARD={id}", "LLMGW_STATE=failed")
    )
    kept = ("MESSAGE", "PRIORITY", "LLMGW_SHARD", "LLMGW_REPLICA", "LLMGW_STATE", "_SYSTEMD_UNIT")
    assert len(entries) == 1
    return {key: value for key, value in entries[0].items() if key in kept}


def failure(id: str, message: str, *lines: str) -> dict[str, Any]:
    return {
        "MESSAGE": "\n  ".join([message, *lines]),
        "PRIORITY": "3",
        "LLMGW_SHARD": id,
        "LLMGW_REPLICA": id,
        "LLMGW_STATE": "failed",
        "_SYSTEMD_UNIT": "llmgwd.service",
    }


LAST_TEN = [f"line {number}" for number in range(2, 12)]


def test_an_engine_that_exits_with_37_has_failed_with_its_last_ten_lines_in_the_journal(node: Node) -> None:
    node.start("e37", **serving(8100, *LINES, "--ready-after", "60", "--ends-after", "0", "--status", "37"))
    failed = node.wait_state("e37", "failed")
    assert outcome(failed) == ("failed", "engine exited 37", 37, "")
    message = "shard e37: loading -> failed: engine exited 37"
    assert entry_of_failure(node, "e37") == failure("e37", message, *LAST_TEN)
    assert node.tail("e37") == [f"line {number}" for number in range(12)]


def test_an_engine_that_exits_while_the_daemon_is_away_has_failed_no_less(node: Node) -> None:
    head = {"name": "head", "command": engine()}
    ready = node.started("away", sidecars=[head], **serving(8100, *LINES))
    pids = node.processes(ready)
    with node.without_daemon():
        node.get(8100, "/exit?37")
        node.machine.wait_for("its gate has ended", lambda: len(node.running(pids)) == 2)
    # The start of the daemon returned: a shard that has ended is told as such from the first call on.
    failed = node.shard("away")
    assert outcome(failed) == ("failed", "ended while llmgwd was away: exited 37", 37, "")
    assert (node.running(pids), node.processes(failed)) == ([], ())
    message = "shard away: ready -> failed: ended while llmgwd was away: exited 37"
    assert entry_of_failure(node, "away") == failure(
        "away", message, *(f"[engine] {line}" for line in LAST_TEN)
    )


@pytest.mark.parametrize("kill", [False, True], ids=["after a stop of the daemon", "after SIGKILL to it"])
def test_an_engine_that_exits_and_leaves_deaf_children_while_the_daemon_is_away_has_failed(
    node: Node, kill: bool
) -> None:
    ready = node.started("a", **serving(8100, "--child", "daemon", "--child", "setsid"), stop_timeout_s=1)
    pids = node.processes(ready)
    if kill:
        node.systemctl("kill", "--signal=KILL", "llmgwd.service")
    else:
        node.systemctl("stop", "llmgwd.service")
    node.get(8100, "/exit?9")
    node.systemctl("start", "llmgwd.service")
    failed = node.wait_state("a", "failed")
    assert failed["Reason"] in {"ended while llmgwd was away: exited 9", "engine exited 9"}
    assert (failed["ExitCode"], node.running(pids)) == (9, [])


def test_an_engine_that_exits_with_0_has_failed(node: Node) -> None:
    node.start("a", command=engine("--ends-after", "0"))
    assert outcome(node.wait_state("a", "failed")) == ("failed", "engine exited 0", 0, "")


@pytest.mark.parametrize(
    ("number", "name"), [(11, "SIGSEGV"), (6, "SIGABRT"), (9, "SIGKILL"), (15, "SIGTERM")]
)
def test_an_engine_that_dies_of_a_signal_says_which(node: Node, number: int, name: str) -> None:
    node.start("a", command=engine("--ends-after", "0", "--by-signal", str(number)))
    expected = ("failed", f"engine was killed by {name}", 128 + number, name)
    assert outcome(node.wait_state("a", "failed")) == expected


def test_an_engine_that_ends_at_once_is_never_lost(node: Node) -> None:
    for number in range(20):
        node.start(f"n{number}", command=["/bin/sh", "-c", f"echo word of {number}; exit {number}"])
    for number in range(20):
        expected = ("failed", f"engine exited {number}", number, "")
        assert outcome(node.wait_state(f"n{number}", "failed")) == expected
        assert node.tail(f"n{number}") == [f"word of {number}"]


def test_a_stop_of_the_scope_by_systemctl_is_a_stop(node: Node) -> None:
    with node.signals() as bus:
        ready = node.started("a", sidecars=[{"name": "head", "command": engine()}], **serving(8100))
        pids = node.processes(ready)
        node.systemctl("stop", "llmgw-shard-a.scope")
        stopped = node.wait_state("a", "stopped")
        bus.wait_state("a", "stopped")
    assert bus.states("a")[-2:] == [
        ("ready", "draining", "being stopped by systemd"),
        ("draining", "stopped", "stopped by systemd"),
    ]
    assert (outcome(stopped), node.running(pids)) == (("stopped", "stopped by systemd", 143, "SIGTERM"), [])


def test_a_stop_of_the_slice_is_a_stop_of_every_shard_and_they_start_again_after_it(node: Node) -> None:
    ready = {
        "a": node.started("a", **serving(8100)),
        "b": node.started("b", command=engine(), sidecars=[{"name": "head", "command": engine()}]),
    }
    pids = [pid for shard in ready.values() for pid in node.processes(shard)]
    node.systemctl("stop", "llmgw.slice")
    for name in ready:
        stopped = node.wait_state(name, "stopped")
        assert outcome(stopped) == ("stopped", "stopped by systemd", 143, "SIGTERM")
    assert node.running(pids) == []
    assert node.started("a", **serving(8100))["Reason"] == "serves tiny"


def test_a_stop_by_systemctl_of_a_deaf_engine_is_draining_meanwhile(node: Node) -> None:
    node.start("a", command=engine("--deaf", "--say", "up"), stop_timeout_s=1)
    node.machine.wait_for("it is deaf", lambda: node.tail("a") == ["up"])
    node.wait_state("a", "ready")
    node.systemctl("stop", "--no-block", "llmgw-shard-a.scope")
    draining = node.wait_state("a", "draining")
    assert draining["Reason"] == "being stopped by systemd"
    stopped = node.wait_state("a", "stopped")
    assert (stopped["ExitCode"], stopped["ExitSignal"]) == (137, "SIGKILL")


def test_sigkill_to_the_whole_scope_by_systemctl_is_a_failure(node: Node) -> None:
    ready = node.started("a", sidecars=[{"name": "head", "command": engine()}], **serving(8100))
    pids = node.processes(ready)
    node.systemctl("kill", "--signal=KILL", "llmgw-shard-a.scope")
    failed = node.wait_state("a", "failed")
    assert outcome(failed) == ("failed", "engine was killed by SIGKILL", 137, "SIGKILL")
    assert node.running(pids) == []


def test_a_gate_that_is_killed_alone_takes_its_engine_along(node: Node) -> None:
    ready = node.started("a", sidecars=[{"name": "head", "command": engine()}], **serving(8100))
    pids = node.processes(ready)
    gate = node.parent(ready["Pid"])
    assert gate in pids
    node.kill(gate)
    failed = node.wait_state("a", "failed")
    assert outcome(failed) == ("failed", "engine lost its gate", -1, "")
    assert node.running(pids) == []


def test_a_gate_that_is_killed_while_the_daemon_is_away_takes_its_engine_along(node: Node) -> None:
    ready = node.started("a", **serving(8100))
    pids = node.processes(ready)
    with node.without_daemon():
        node.kill(node.parent(ready["Pid"]))
    failed = node.wait_state("a", "failed")
    assert outcome(failed) == ("failed", "ended while llmgwd was away: lost its gate", -1, "")
    assert node.running(pids) == []


def test_a_scope_that_was_stopped_while_the_daemon_is_away_is_an_end_that_is_told(node: Node) -> None:
    node.started("a", **serving(8100))
    with node.without_daemon():
        node.systemctl("stop", "llmgw-shard-a.scope")
    expected = ("failed", "ended while llmgwd was away: was killed by SIGTERM", 143, "SIGTERM")
    assert outcome(node.shard("a")) == expected


def test_a_sidecar_that_dies_before_the_engine_is_up_fails_the_shard_at_once(node: Node) -> None:
    head = {"name": "head", "command": engine("--say", "head says no", "--ends-after", "0", "--status", "3")}
    node.start("a", sidecars=[head], **serving(8100, "--ready-after", "60"))
    failed = node.wait_state("a", "failed")
    assert (failed["State"], failed["Reason"]) == ("failed", "sidecar head exited 3 before the engine was up")
    assert node.tail("a") == ["[head] head says no"]


def test_a_sidecar_that_dies_later_is_told_and_the_engine_goes_on(node: Node) -> None:
    head = {"name": "head", "command": engine("--port", "8101")}
    ready = node.started("a", sidecars=[head], **serving(8100))
    node.get(8101, "/exit?4")
    told = node.wait("a", "has lost its sidecar", lambda shard: shard["Reason"] != "serves tiny")
    assert (told["State"], told["Reason"], told["Pid"]) == ("ready", "sidecar head exited 4", ready["Pid"])
    node.get(8100, "/health")


def test_the_properties_of_an_ended_shard_outlive_the_daemon(node: Node) -> None:
    node.start("a", command=engine("--say", "bye", "--ends-after", "0", "--status", "37"))
    failed = node.wait_state("a", "failed")
    node.kill_daemon()
    assert (node.shard("a"), node.tail("a")) == (failed, ["bye"])
    assert node.recorded(failed)["exit_code"] == 37
