"""Shards that wait for the leader of their replica: how long, what they say meanwhile, and who ends it."""

from tests.machine.node import Node, Shard
from tests.machine.specs import engine, serving, waiting

LEADER = 8200
WAITS = f"engine waits for 127.0.0.1:{LEADER} (leader)"


def start_waiting(node: Node, **spec: object) -> Shard:
    node.start("a", **(serving(8100) | waiting(LEADER) | spec))
    return node.wait("a", "waits", lambda shard: "waits for" in shard["Reason"])


def test_an_engine_is_held_at_its_gate_until_the_leaders_port_is_open(node: Node) -> None:
    held = start_waiting(node)
    assert (held["State"], held["Reason"], held["Pid"]) == ("starting", WAITS, 0)
    assert len(node.processes(held)) == 1
    with node.service("leader", engine("--port", str(LEADER))):
        ready = node.wait_state("a", "ready")
    assert (ready["Reason"], ready["Pid"] > 0) == ("serves tiny", True)


def test_a_leader_waits_for_the_head_that_it_starts_itself(node: Node) -> None:
    head = {"name": "head", "command": engine("--port", str(LEADER), "--opens-after", "0.5"), **waits()}
    spec = {"leader_address": "127.0.0.1", "leader_port": LEADER, "waits_for_leader": True}
    node.start("a", **serving(8100), **spec, sidecars=[head])
    held = node.wait("a", "waits", lambda shard: shard["Reason"] == WAITS)
    # two gates, and the head, which as the first process of rank 0 never waits
    node.machine.wait_for("the head runs", lambda: len(node.processes(held)) == 3)
    assert node.wait_state("a", "ready")["Reason"] == "serves tiny"


def waits() -> dict[str, object]:
    return {"waits_for_leader": True}


def test_a_sidecar_waits_before_the_engine_does(node: Node) -> None:
    worker = {"name": "worker", "command": engine("--say", "joined"), **waits()}
    node.start(
        "a",
        command=engine("--say", "engine"),
        **waiting(LEADER) | {"waits_for_leader": False},
        sidecars=[worker],
    )
    held = node.wait("a", "waits", lambda shard: "waits for" in shard["Reason"])
    assert held["Reason"] == f"worker waits for 127.0.0.1:{LEADER} (leader)"
    with node.service("leader", engine("--port", str(LEADER))):
        node.wait_state("a", "ready")
    assert node.machine.wait_for(
        "both spoke", lambda: sorted(node.tail("a"))[1:] and sorted(node.tail("a"))
    ) == [
        "[engine] engine",
        "[worker] joined",
    ]


def test_a_leader_that_does_not_come_in_time_fails_the_shard(node: Node) -> None:
    pids = node.processes(start_waiting(node, rendezvous_timeout_s=0.5))
    failed = node.wait_state("a", "failed")
    assert (failed["Reason"], failed["ExitCode"], node.running(pids)) == (
        f"127.0.0.1:{LEADER} (leader) not listening after 0.5 s",
        -1,
        [],
    )


def test_a_leader_whose_name_is_not_known_yet_is_waited_for(node: Node) -> None:
    node.start("a", **serving(8100) | waiting(LEADER) | {"leader_address": "leader.example"})
    node.wait("a", "waits", lambda shard: shard["Reason"].startswith("engine waits for leader.example:"))
    hosts = node.machine.path("/etc/hosts")
    before = hosts.read_text()
    hosts.write_text(f"{before}127.0.0.1 leader.example\n")
    try:
        with node.service("leader", engine("--port", str(LEADER))):
            node.wait_state("a", "ready")
    finally:
        hosts.write_text(before)


def test_a_stop_ends_the_waiting_at_once(node: Node) -> None:
    pids = node.processes(start_waiting(node))
    node.stop("a")
    stopped = node.wait_state("a", "stopped", timeout_s=5)
    assert (stopped["Reason"], stopped["ExitCode"], stopped["ExitSignal"]) == ("stopped", -1, "")
    assert node.running(pids) == []


def test_a_shard_that_waits_starts_again_with_the_time_that_is_left_when_the_daemon_is_killed(
    node: Node,
) -> None:
    side = {"name": "side", "command": engine()}
    held = start_waiting(node, sidecars=[side], rendezvous_timeout_s=4)
    pids, until = node.processes(held), node.recorded(held)["leader_until"]
    node.kill_daemon()
    again = node.wait("a", "waits again", lambda shard: shard["Reason"] == WAITS)
    assert (node.recorded(held)["leader_until"], set(until)) == (until, {"engine"})
    assert (again["State"], again["Adopted"]) == ("starting", False)
    assert (node.running(pids), len(node.processes(again))) == ([], 3)
    failed = node.wait_state("a", "failed")
    assert failed["Reason"] == f"127.0.0.1:{LEADER} (leader) not listening after 4 s"


def test_a_shard_that_started_again_after_a_kill_of_the_daemon_becomes_ready(node: Node) -> None:
    start_waiting(node, sidecars=[{"name": "side", "command": engine("--child", "daemon")}], stop_timeout_s=1)
    node.kill_daemon()
    with node.service("leader", engine("--port", str(LEADER))):
        ready = node.wait_state("a", "ready")
    assert (ready["Reason"], len(node.processes(ready))) == ("serves tiny", 5)
    assert node.call("ListOrphans") == []


def test_a_sidecar_that_dies_while_the_engine_waits_fails_the_shard_at_once(node: Node) -> None:
    side = {"name": "side", "command": engine("--ends-after", "0.2", "--status", "2")}
    start_waiting(node, sidecars=[side])
    failed = node.wait_state("a", "failed")
    assert (failed["Reason"], failed["ExitCode"]) == ("sidecar side exited 2 before the engine was up", -1)
