"""Records that are gone, spoiled, of another boot, of others: who is adopted, listed, or left alone."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.machine.node import STATE, Node, Refused, Shard
from tests.machine.specs import engine, serving

SENTINEL = "sentinel.service"


def change(path: Path, **values: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def orphan(node: Node, shard: Shard) -> dict[str, Any]:
    return {
        "unit": shard["Unit"],
        "control_group": shard["ControlGroup"],
        "pids": list(node.processes(shard)),
        "id": shard["Id"],
    }


@pytest.fixture
def node(node: Node) -> Iterator[Node]:
    """Without orphans at the end, and without what their records have left."""
    yield node
    for left in node.call("ListOrphans"):
        node.call("KillOrphan", "s", left["unit"])
    node.machine.run(["sh", "-c", f"rm -rf {STATE}/*.corrupt-* {STATE}/*.exits"])


def test_a_scope_whose_record_is_gone_is_an_orphan_until_it_is_killed(node: Node) -> None:
    ready = node.started("a", **serving(8100), sidecars=[{"name": "head", "command": engine()}])
    pids = node.processes(ready)
    with node.without_daemon():
        node.record(ready).unlink()
    assert (node.shards(), node.call("ListOrphans")) == ({}, [orphan(node, ready)])
    assert node.running(pids) == list(pids)
    with pytest.raises(Refused) as refusal:
        node.start("a", **serving(8100))
    assert str(refusal.value) == "Busy: shard a: llmgw-shard-a.scope is an orphan; see llmgwctl kill-orphan"
    node.call("KillOrphan", "s", ready["Unit"])
    node.machine.wait_for("the orphan has gone", lambda: node.running(pids) == [])
    node.machine.wait_for("it is not listed", lambda: node.call("ListOrphans") == [])
    assert node.started("a", **serving(8100))["Reason"] == "serves tiny"


@pytest.mark.parametrize("unit", ["llmgw-shard-a.scope", "init.scope", "llmgwd.service", "", "/", "sentinel"])
def test_only_an_orphan_can_be_killed_as_one(node: Node, unit: str) -> None:
    live = node.started("a", command=engine())
    with pytest.raises(Refused) as refusal:
        node.call("KillOrphan", "s", unit)
    assert str(refusal.value) == f"NoSuchOrphan: {unit} is no orphan of this node"
    assert node.shard("a") == live


def big(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(100 << 20)


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def dangling(path: Path) -> None:
    path.unlink()
    path.symlink_to("/none")


SPOIL: dict[str, Callable[[Path], object]] = {
    "empty": lambda path: path.write_text(""),
    "half": lambda path: path.write_text(path.read_text()[:200]),
    "bytes": lambda path: path.write_bytes(bytes(range(256))),
    "list": lambda path: path.write_text("[1, 2]"),
    "deep": lambda path: path.write_text("[" * 100_000),
    "future": lambda path: change(path, schema=99),
    "wrong-type": lambda path: change(path, starts="many"),
    "wrong-state": lambda path: change(path, state="well"),
    "no-spec": lambda path: change(path, spec={}),
    "folder": folder,
    "dangling": dangling,
    "big": big,
}


def test_records_that_are_spoiled_are_set_aside_and_the_others_adopted(node: Node) -> None:
    good = node.started("good", **serving(8100))
    spoiled = {name: node.started(name, command=["/usr/bin/sleep", "1000"]) for name in SPOIL}
    with node.without_daemon():
        for name, spoil in SPOIL.items():
            spoil(node.record(spoiled[name]))
    assert {name: shard["Pid"] for name, shard in node.shards().items()} == {"good": good["Pid"]}
    orphans = sorted(node.call("ListOrphans"), key=lambda one: str(one["id"]))
    assert orphans == [orphan(node, spoiled[name]) for name in sorted(SPOIL)]
    aside = node.machine.run(["ls", STATE]).stdout.split()
    named = {re.sub(r"\.json\.corrupt-\d+$", "", name) for name in aside if ".corrupt-" in name}
    assert named == {shard["Unit"].removesuffix(".scope") for shard in spoiled.values()}
    told = [str(entry["MESSAGE"]) for entry in node.log("PRIORITY=3")]
    for name in named:
        assert [
            line for line in told if line.startswith(f"record {name} cannot be used and was set aside as")
        ]


def test_a_shard_of_an_earlier_boot_has_failed_and_nobody_is_signalled(node: Node) -> None:
    """The pids of its record are those of others by now."""
    sentinel = node.main_pid(SENTINEL)
    stranger = {"pid": sentinel, "start_time": node.identity(sentinel)[1]}  # type: ignore[index]
    shards = {name: node.started(name, command=engine()) for name in ("was ready", "was draining")}
    node.call("DrainShard", "s", "was draining")
    with node.without_daemon():
        for shard in shards.values():
            change(node.record(shard), boot_id="0" * 32, pids={"engine": stranger})
    told = {
        name: tuple(shard[key] for key in ("State", "Reason", "ExitCode", "ExitSignal", "Pid"))
        for name, shard in node.shards().items()
    }
    assert told == {
        "was ready": ("failed", "host rebooted", -1, "", 0),
        "was draining": ("stopped", "host rebooted", -1, "", 0),
    }
    pids = [pid for shard in shards.values() for pid in node.processes(shard)]
    assert (len(pids), node.running(pids)) == (4, pids)


def test_processes_of_others_that_have_a_recorded_pid_are_not_taken_for_a_shards(node: Node) -> None:
    """The record says a pid that has another start time by now, or another cgroup."""
    ready = {name: node.started(name, command=engine()) for name in ("reused", "moved")}
    sentinel = node.main_pid(SENTINEL)
    identity = node.identity(sentinel)
    assert identity is not None
    pids = [pid for shard in ready.values() for pid in node.processes(shard)]
    with node.without_daemon():
        change(node.record(ready["reused"]), pids={"engine": {"pid": sentinel, "start_time": 1}})
        change(node.record(ready["moved"]), pids={"engine": {"pid": sentinel, "start_time": identity[1]}})
    for name in ready:
        assert node.wait_state(name, "failed")["Reason"] == "ended while llmgwd was away: lost its gate"
    assert (node.running(pids), node.identity(sentinel)) == ([], identity)
