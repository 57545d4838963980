"""A state directory without room: nothing runs that a restarted daemon would not find."""

from collections.abc import Iterator

import pytest

from tests.machine.node import STATE, Node, Refused
from tests.machine.specs import engine, serving

SPEC: dict[str, object] = {
    "command": ["/usr/bin/sleep", "1000"],
    "sidecars": [{"name": "head", "command": ["/usr/bin/sleep", "1001"]}],
}


@pytest.fixture
def node(node: Node) -> Iterator[Node]:
    """With a state directory of 64 pages."""
    with node.without_daemon():
        node.machine.run(["mount", "-t", "tmpfs", "-o", "size=256k,mode=0700", "tmpfs", STATE])
    try:
        yield node
    finally:
        free(node)
        sleepers = node.machine.run(["pgrep", "--full", "^/usr/bin/sleep 100[01]$"], check=False).stdout
        for name, shard in node.shards().items():
            if shard["State"] not in {"stopped", "failed"}:
                node.stop(name)
                node.wait_state(name, "stopped")
            node.call("RemoveShard", "s", name)
        with node.without_daemon():
            node.machine.run(["umount", STATE])
        assert sleepers == ""


def fill(node: Node, leave: int = 0) -> None:
    """So that `leave` pages are left."""
    node.machine.run(
        [
            "sh",
            "-c",
            f"cat /dev/zero > {STATE}/.fill 2>/dev/null; truncate --size=-{4096 * leave} {STATE}/.fill",
        ]
    )


def free(node: Node) -> None:
    node.machine.run(["rm", "-f", f"{STATE}/.fill"])


def test_a_shard_whose_record_cannot_be_written_is_refused_and_nothing_runs(node: Node) -> None:
    fill(node)
    with pytest.raises(Refused) as refusal:
        node.start("a", **SPEC)
    told = "StateNotSaved: shard a was not started: its record: No space left on device"
    assert (str(refusal.value), node.shards(), node.scopes()) == (told, {}, [])
    free(node)
    assert node.started("a", **SPEC)["State"] == "ready"
    node.stop("a")
    node.wait_state("a", "stopped")


def test_a_start_for_which_the_room_ends_midway_leaves_nothing_running(node: Node) -> None:
    """As many pages are left as some step of the start needs, and not the next."""
    outcomes = {}
    for pages in range(8):
        fill(node, leave=pages)
        outcomes[pages] = outcome(node)
        free(node)
    assert outcomes[0].startswith("StateNotSaved: ")
    assert outcomes[7] == "ready"
    refused = [told for told in outcomes.values() if told != "ready"]
    assert [
        told for told in refused if not told.startswith(("StateNotSaved: ", "failed: StateNotSaved: "))
    ] == []


def outcome(node: Node) -> str:
    """How a start went; at its end nothing of it runs."""
    try:
        node.start("a", **SPEC)
    except Refused as refusal:
        assert node.scopes() == []
        return str(refusal)
    shard = node.machine.wait_for("it settles", lambda: settled(node))
    if shard["State"] == "ready":
        node.stop("a")
        node.wait_state("a", "stopped")
        return "ready"
    assert node.processes(shard) == ()
    return f"{shard['State']}: {shard['Reason']}"


def settled(node: Node) -> dict[str, object]:
    shard = node.shard("a")
    return shard if shard["State"] in {"ready", "failed"} else {}


def test_a_full_disk_does_not_end_or_change_a_shard_that_runs(node: Node) -> None:
    ready = node.started("a", **serving(8100), sidecars=[{"name": "head", "command": engine()}])
    pids = node.processes(ready)
    fill(node)
    node.call("DrainShard", "s", "a")
    assert (node.shard("a")["State"], node.running(pids)) == ("draining", list(pids))
    node.get(8100, "/exit?37")
    stopped = node.wait_state("a", "stopped")
    assert (stopped["ExitCode"], node.running(pids)) == (37, [])


def test_the_exit_status_of_an_engine_is_not_lost_on_a_full_disk_while_the_daemon_is_away(node: Node) -> None:
    node.started("a", **serving(8100))
    fill(node)
    with node.without_daemon():
        node.get(8100, "/exit?37")
    failed = node.shard("a")
    assert (failed["State"], failed["Reason"], failed["ExitCode"]) == (
        "failed",
        "ended while llmgwd was away: exited 37",
        37,
    )
