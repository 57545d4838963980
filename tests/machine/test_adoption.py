"""The daemon goes and comes back: engines, streams, logs, deadlines are as they would have been without."""

import json
from collections.abc import Callable

import pytest

from tests.machine.node import DAEMON, Node, Shard, call, outcome
from tests.machine.specs import engine, serving

AWAY: dict[str, Callable[[Node], None]] = {
    "killed": Node.kill_daemon,
    "restarted": Node.restart_daemon,
    "stopped and started": Node.stop_and_start_daemon,
}

HEAD = {"name": "head", "command": engine("--say", "head up")}
# The longest that a stream with a number every 50 ms may be without one.
STALL_S = 0.5


def start_ten(node: Node) -> dict[str, Shard]:
    """Ten live shards in every state that lasts; what they are once that has settled."""
    node.start("serving", **serving(8100, "--say", "up"))
    node.start("serving too", **serving(8101, "--child", "daemon"), stop_timeout_s=1)
    node.start("with sidecars", **serving(8102), sidecars=[HEAD, {"name": "two", "command": engine()}])
    node.start("alive", command=engine())
    node.start("alive with sidecar", command=engine("--say", "up"), sidecars=[HEAD])
    node.start("loading", **serving(8103, "--ready-after", "600"))
    node.start("drained", **serving(8104))
    node.start("lonely", **serving(8105), sidecars=[HEAD | {"command": engine("--port", "8106")}])
    node.start("ticking", command=engine("--tick", "0.05"))
    node.start("🦙/x", command=["/usr/bin/sleep", "1000"], sidecars=[HEAD])
    ready = {*node.shards()} - {"loading"}
    for name in ready:
        node.wait_state(name, "ready")
    node.call("DrainShard", "s", "drained")
    node.get(8106, "/exit?4")
    return node.machine.wait_for("all have settled", lambda: settled(node))


def settled(node: Node) -> dict[str, Shard]:
    shards = node.shards()
    expected = {
        "serving": ("ready", "serves tiny", "ok"),
        "serving too": ("ready", "serves tiny", "ok"),
        "with sidecars": ("ready", "serves tiny", "ok"),
        "alive": ("ready", "", "unknown"),
        "alive with sidecar": ("ready", "", "unknown"),
        "loading": ("loading", "answers 503: Loading model", "unknown"),
        "drained": ("draining", "drained", "ok"),
        "lonely": ("ready", "sidecar head exited 4", "ok"),
        "ticking": ("ready", "", "unknown"),
        "🦙/x": ("ready", "", "unknown"),
    }
    are = {name: (shard["State"], shard["Reason"], shard["Health"]) for name, shard in shards.items()}
    return shards if are == expected and all(shard["Pid"] for shard in shards.values()) else {}


@pytest.mark.parametrize("away", AWAY)
def test_ten_shards_and_a_stream_do_not_notice_that_the_daemon_was(node: Node, away: str) -> None:
    before = start_ten(node)
    processes = {name: node.processes(shard) for name, shard in before.items()}
    tails = {name: node.tail(name) for name in before}
    daemon = node.daemon_pid()
    with node.reader(8100) as stream:
        AWAY[away](node)
        assert node.daemon_pid() not in {0, daemon}
        assert [*node.shards()] == [*before]
        expected = {name: shard | {"Adopted": True} for name, shard in before.items()}
        node.machine.wait_for("all are as they were", lambda: node.shards() == expected)
        told = json.loads(stream.communicate()[0])
    assert told | {"numbers": 0, "longest_wait_s": 0} == {
        "numbers": 0,
        "in_order": True,
        "cut": False,
        "longest_wait_s": 0,
    }
    assert (told["numbers"] > 3, told["longest_wait_s"] < STALL_S) == (True, True), told
    assert {name: node.processes(shard) for name, shard in before.items()} == processes
    check_tails(node, tails)
    for name in before:
        node.stop(name)
    for name in before:
        assert node.processes(node.wait_state(name, "stopped")) == ()
    assert node.running([pid for pids in processes.values() for pid in pids]) == []


def check_tails(node: Node, before: dict[str, list[str]]) -> None:
    """What was printed before is there, and so is what was printed while the daemon was away."""
    ticks = node.tail("ticking")
    assert ticks == [f"tick {number}" for number in range(len(ticks))]
    assert len(ticks) > len(before["ticking"])
    after = {name: node.tail(name) for name in before if name != "ticking"}
    assert after == {name: lines for name, lines in before.items() if name != "ticking"}
    assert after["alive with sidecar"] in (
        ["[head] head up", "[engine] up"],
        ["[engine] up", "[head] head up"],
    )


def test_the_daemon_is_ready_only_when_it_has_adopted_and_says_what(node: Node) -> None:
    ready = node.started("a", **serving(8100))
    node.start("b", command=engine("--ends-after", "0", "--status", "1"))
    node.wait_state("b", "failed")
    node.systemctl("restart", DAEMON)
    first, status = node.shards(), node.daemon_status()
    assert {name: (shard["State"], shard["Adopted"]) for name, shard in first.items()} == {
        "a": ("ready", True),
        "b": ("failed", False),
    }
    assert (status, first["a"]["InvocationId"]) == ("2 shards: 1 ready, 1 failed", ready["InvocationId"])


def test_the_status_follows_the_shards(node: Node) -> None:
    node.machine.wait_for("an empty node says so", lambda: node.daemon_status() == "no shards")
    node.started("a", command=engine())
    node.machine.wait_for("it tells of one", lambda: node.daemon_status() == "1 shard: 1 ready")


def test_an_adopted_engine_that_is_killed_has_failed_as_any_other(node: Node) -> None:
    ready = node.started("a", **serving(8100), sidecars=[HEAD])
    pids = node.processes(ready)
    node.kill_daemon()
    node.kill(ready["Pid"])
    expected = ("failed", "engine was killed by SIGKILL", 137, "SIGKILL")
    assert (outcome(node.wait_state("a", "failed")), node.running(pids)) == (expected, [])


def test_the_time_for_getting_ready_goes_on_while_the_daemon_is_away(node: Node) -> None:
    node.start("a", **serving(8100, "--ready-after", "600"), ready_timeout_s=2)
    loading = node.wait_state("a", "loading")
    until = node.recorded(loading)["ready_until"]
    node.kill_daemon()
    assert (node.recorded(loading)["ready_until"], until > 0) == (until, True)
    failed = node.wait_state("a", "failed")
    assert failed["Reason"] == "not ready in 2 s: answers 503: Loading model"


def test_a_time_that_ran_out_while_the_daemon_was_away_has_run_out(node: Node) -> None:
    node.start("a", **serving(8100, "--ready-after", "600"), ready_timeout_s=0.3)
    node.wait("a", "answers", lambda shard: "503" in shard["Reason"])
    with node.without_daemon():
        node.machine.run(["sleep", "0.3"])
    failed = node.wait_state("a", "failed")
    assert failed["Reason"] == "not ready in 0.3 s: answers 503: Loading model"


def test_an_engine_that_came_to_serve_while_no_daemon_looked_is_ready(node: Node) -> None:
    node.start("a", **serving(8100, "--ready-after", "1"), ready_timeout_s=1.2)
    node.wait_state("a", "loading")
    with node.without_daemon():
        node.machine.run(["sleep", "1.2"])
    assert node.wait_state("a", "ready")["Reason"] == "serves tiny"


def test_a_stop_goes_on_when_the_daemon_is_killed_in_its_middle(node: Node) -> None:
    ready = node.started_deaf(stop_timeout_s=2)
    pids = node.processes(ready)
    node.stop("a")
    until = node.recorded(ready)["stop_until"]
    node.kill_daemon()
    assert node.recorded(ready)["stop_until"] == until
    expected = ("stopped", "did not stop in 2 s, killed", 137, "SIGKILL")
    assert (outcome(node.wait_state("a", "stopped")), node.running(pids)) == (expected, [])


def test_a_stop_is_finished_by_systemd_while_the_daemon_is_away(node: Node) -> None:
    pids = node.processes(node.started_deaf(stop_timeout_s=1))
    node.stop("a")
    with node.without_daemon():
        node.machine.wait_for("systemd has killed it", lambda: node.running(pids) == [])
    assert outcome(node.shard("a")) == ("stopped", "did not stop in 1 s, killed", 137, "SIGKILL")


def test_a_short_limit_is_kept_by_the_next_daemon(node: Node) -> None:
    node.started_deaf(stop_timeout_s=60)
    node.stop("a", timeout_seconds=1)
    node.kill_daemon()
    expected = ("stopped", "did not stop in 1 s, killed", 137, "SIGKILL")
    assert outcome(node.wait_state("a", "stopped")) == expected


def test_a_stop_that_waits_for_requests_goes_on_with_the_next_daemon(node: Node) -> None:
    node.started("a", **serving(8100))
    with node.reader(8100):
        node.stop("a", drain_seconds=60)
        node.kill_daemon()
        waiting = node.shard("a")
        assert (waiting["State"], waiting["Reason"]) == ("draining", "finishing requests")
    assert outcome(node.wait_state("a", "stopped")) == ("stopped", "stopped", 143, "SIGTERM")


@pytest.mark.parametrize("after_ms", [0, 5, 15, 30, 60])
def test_a_daemon_that_is_killed_in_the_middle_of_starts_leaves_no_half_ones(
    node: Node, after_ms: int
) -> None:
    """Every accepted shard comes to run, once; a caller that got no answer may ask again."""
    head = "sidecars 'aa{sv}' 1 2 name s head command as 2 /usr/bin/sleep 1000"
    start = f"{' '.join(call('StartShard', chr(39) + 'sa{sv}' + chr(39)))} $id 3 engine s command {head}"
    script = f"""
        for id in $(seq 8); do {start} command as 2 /usr/bin/sleep 1000 >/dev/null 2>&1 & done
        sleep 0.{after_ms:03}
        kill -KILL {node.daemon_pid()}
        wait
    """
    node.machine.run(["sh", "-c", script])
    node.systemctl("start", DAEMON)
    node.machine.wait_for("a new daemon is up", node.daemon_pid)
    for number in range(1, 9):
        spec = {"sidecars": [{"name": "head", "command": ["/usr/bin/sleep", "1000"]}]}
        node.start(str(number), command=["/usr/bin/sleep", "1000"], **spec)
    ready = {number: node.wait_state(str(number), "ready") for number in range(1, 9)}
    assert [len(node.processes(shard)) for shard in ready.values()] == [4] * 8
    assert (node.call("ListOrphans"), len(node.scopes())) == ([], 8)
    assert sleepers(node) == 16


def sleepers(node: Node) -> int:
    return len(node.machine.run(["pgrep", "--full", "^/usr/bin/sleep 1000$"], check=False).stdout.split())


def test_a_daemon_that_hangs_is_replaced_and_the_engines_stay(node: Node) -> None:
    folder = "/run/systemd/system/llmgwd.service.d"
    limit = f"mkdir {folder} && printf '[Service]\\nWatchdogSec=2\\n' > {folder}/test.conf"
    node.machine.run(["sh", "-c", f"{limit} && systemctl daemon-reload && systemctl restart {DAEMON}"])
    try:
        before, daemon = node.started("a", **serving(8100), sidecars=[HEAD]), node.daemon_pid()
        pids = node.processes(before)
        node.kill(daemon, "STOP")
        node.machine.wait_for("a new llmgwd", lambda: node.daemon_pid() not in {0, daemon}, timeout_s=20)
        node.wait_up()
        adopted = node.shard("a")
        assert adopted | {"Health": "ok"} == before | {"Health": "ok", "Adopted": True}
        assert node.processes(adopted) == pids
        node.stop("a")
        assert outcome(node.wait_state("a", "stopped")) == ("stopped", "stopped", 143, "SIGTERM")
    finally:
        node.machine.run(["rm", "-r", folder])
        node.systemctl("daemon-reload")
        node.systemctl("restart", DAEMON)
