"""The commands that show something: for people, and with --json for programs."""

from typing import Any

import pytest

from tests.fakes.command import Outcome
from tests.fakes.node import FakeNode

READY: dict[str, Any] = {
    "Id": "qwen-0", "ReplicaId": "qwen", "Rank": 0, "Nodes": 2, "Engine": "llama-cpp", "Model": "tiny.gguf",
    "State": "ready", "Reason": "", "Health": "ok", "Pid": 4711, "ExitCode": -1, "ExitSignal": "",
    "OomKills": 0, "Started": 1_700_000_000_000_000, "Ready": 1_700_000_012_345_678, "Endpoint": "http://10.0.0.3:8000",
    "Unit": "llmgw-shard-qwen\\x2d0.scope", "InvocationId": "0123456789abcdef0123456789abcdef",
    "ControlGroup": "/llmgw.slice/llmgw-shard-qwen\\x2d0.scope", "Adopted": True, "Gpus": ["0", "1"],
    "Spec": {"engine": "llama-cpp", "sidecars": [{"name": "head", "command": ["/bin/sleep", "1"]}]},
}  # fmt: skip
READY_JSON: dict[str, Any] = {
    "id": "qwen-0", "replica_id": "qwen", "rank": 0, "nodes": 2, "engine": "llama-cpp", "model": "tiny.gguf",
    "state": "ready", "reason": "", "health": "ok", "pid": 4711, "exit_code": -1, "exit_signal": "",
    "oom_kills": 0, "started": 1_700_000_000_000_000, "ready": 1_700_000_012_345_678, "endpoint": "http://10.0.0.3:8000",
    "unit": "llmgw-shard-qwen\\x2d0.scope", "invocation_id": "0123456789abcdef0123456789abcdef",
    "control_group": "/llmgw.slice/llmgw-shard-qwen\\x2d0.scope", "adopted": True, "gpus": ["0", "1"],
    "spec": {"engine": "llama-cpp", "sidecars": [{"name": "head", "command": ["/bin/sleep", "1"]}]},
}  # fmt: skip
FAILED: dict[str, Any] = {
    "Id": "b", "Engine": "vllm", "Model": "m", "State": "failed", "Reason": "killed by SIGKILL\nafter 3 s",
    "ExitCode": 137, "ExitSignal": "SIGKILL", "OomKills": 1,
}  # fmt: skip
TABLE = """\
ID      STATE   ENGINE     MODEL      RANK  ENDPOINT              REASON
qwen-0  ready   llama-cpp  tiny.gguf  0/2   http://10.0.0.3:8000
b       failed  vllm       m          0/1                         killed by SIGKILL\\nafter 3 s
"""


@pytest.fixture
def shards(node: FakeNode) -> FakeNode:
    node.do("put", values=READY)
    node.do("put", values=FAILED)
    return node


def test_the_list_is_an_aligned_table(shards: FakeNode) -> None:
    assert shards.run("list") == Outcome(0, TABLE)


def test_short_values_fit_into_80_columns(shards: FakeNode) -> None:
    assert max(map(len, TABLE.splitlines()[:2])) <= 80


def test_a_list_of_nothing_is_its_headings(node: FakeNode) -> None:
    assert node.run("list") == Outcome(0, "ID  STATE  ENGINE  MODEL  RANK  ENDPOINT  REASON\n")
    assert node.run("list", "--json") == Outcome(0, "[]\n")


def test_a_ready_shard_that_fails_its_probes_is_shown_as_failing(node: FakeNode) -> None:
    node.put("a", State="ready", Health="failing", Reason="does not answer for 10 s")

    assert node.run("list") == Outcome(
        0,
        "ID  STATE           ENGINE   MODEL  RANK  ENDPOINT  REASON\n"
        "a   ready, failing  command         0/1             does not answer for 10 s\n",
    )


def test_a_list_for_programs_has_the_keys_of_the_bridge(shards: FakeNode) -> None:
    outcome = shards.run("list", "--json")

    assert (outcome.status, outcome.err, outcome.json[0]) == (0, "", READY_JSON)
    assert [shard["id"] for shard in outcome.json] == ["qwen-0", "b"]
    assert shards.run("status", "--json") == outcome


def test_the_status_of_a_ready_shard_says_everything(shards: FakeNode) -> None:
    assert shards.run("status", "qwen-0") == Outcome(
        0,
        """\
Shard:       qwen-0
State:       ready
Health:      ok
Engine:      llama-cpp
Model:       tiny.gguf
Replica:     qwen, rank 0 of 2
Endpoint:    http://10.0.0.3:8000
GPUs:        0, 1
Pid:         4711
Started:     2023-11-14 22:13:20
Ready:       2023-11-14 22:13:32
Unit:        llmgw-shard-qwen\\x2d0.scope
Invocation:  0123456789abcdef0123456789abcdef
Cgroup:      /llmgw.slice/llmgw-shard-qwen\\x2d0.scope
Adopted:     yes, it was started by an earlier llmgwd
""",
    )
    outcome = shards.run("status", "qwen-0", "--json")
    assert (outcome.status, outcome.err, outcome.json) == (0, "", READY_JSON)


def test_the_status_of_another_shard_ends_with_3(shards: FakeNode) -> None:
    assert shards.run("status", "b") == Outcome(
        3,
        """\
Shard:    b
State:    failed
Reason:   killed by SIGKILL\\nafter 3 s
Engine:   vllm
Model:    m
Replica:  b, rank 0 of 1
Exit:     status 137, SIGKILL, 1 killed for lack of memory
""",
    )
    outcome = shards.run("status", "b", "--json")
    assert (outcome.status, outcome.json["state"]) == (3, "failed")


def test_the_status_of_all_counts_them(shards: FakeNode) -> None:
    assert shards.run("status") == Outcome(0, "llmgwd 0.1.0 on gpu-3: 1 ready, 1 failed\n\n" + TABLE)


def test_the_status_of_an_empty_node_is_one_line(node: FakeNode) -> None:
    assert node.run("status") == Outcome(0, "llmgwd 0.1.0 on gpu-3: no shards\n")


def test_counts_are_in_the_order_of_a_life(node: FakeNode) -> None:
    for at, state in enumerate(("failed", "ready", "pending", "stopped", "ready", "loading")):
        node.put(f"s{at}", State=state)

    assert node.run("status").out.splitlines()[0] == (
        "llmgwd 0.1.0 on gpu-3: 1 pending, 1 loading, 2 ready, 1 stopped, 1 failed"
    )


def test_the_status_of_all_counts_orphans_that_there_are(node: FakeNode) -> None:
    orphan = {"unit": "llmgw-shard-old.scope", "control_group": "/x", "pids": [71], "id": "old"}
    node.do("set", what="orphans", value=[orphan])
    assert node.run("status") == Outcome(0, "llmgwd 0.1.0 on gpu-3: no shards, 1 orphan (llmgwctl orphans)\n")

    node.put("a", State="ready")
    node.do("set", what="orphans", value=[orphan, orphan])
    users = node.beside(DBUS_SYSTEM_BUS_ADDRESS="unix:path=/nowhere", DBUS_SESSION_BUS_ADDRESS=node.address)
    assert users.run("--user", "status").out.splitlines()[0] == (
        "llmgwd 0.1.0 on gpu-3: 1 ready, 2 orphans (llmgwctl --user orphans)"
    )


def test_no_orphans_are_said(node: FakeNode) -> None:
    assert node.run("orphans") == Outcome(0, "no orphans\n")
    assert node.run("orphans", "--json") == Outcome(0, "[]\n")


def test_the_status_of_no_shard_ends_with_4(node: FakeNode) -> None:
    assert node.run("status", "zz") == Outcome(
        4, "", "llmgwctl: cannot show shard zz: NoSuchShard: no shard zz\n"
    )


def test_any_id_works(node: FakeNode) -> None:
    for shard_id in ("-x", "a/b", "..", "%n", "ü漢😀", "a b"):
        node.put(shard_id, State="ready")

        assert node.run("status", "--json", "--", shard_id).json["id"] == shard_id


def test_orphans_are_listed_with_what_kills_them(node: FakeNode) -> None:
    orphan = {
        "unit": "llmgw-shard-old.scope", "control_group": "/llmgw.slice/llmgw-shard-old.scope",
        "pids": [71, 72], "id": "old",
    }  # fmt: skip
    node.do("set", what="orphans", value=[orphan])

    assert node.run("orphans") == Outcome(
        0, "UNIT                   ID   PIDS\nllmgw-shard-old.scope  old  71 72\n"
    )
    assert node.run("orphans", "--json").json == [orphan]


def test_commands_that_change_something_else_say_nothing(node: FakeNode) -> None:
    node.put("a", State="ready")

    assert node.run("drain", "a") == Outcome(0, "")
    assert node.run("remove", "a") == Outcome(0, "")
    assert node.run("kill-orphan", "llmgw-shard-old.scope") == Outcome(0, "")
    assert node.run("reload") == Outcome(0, "")
    assert node.calls() == [
        ["DrainShard", "a"], ["RemoveShard", "a"], ["KillOrphan", "llmgw-shard-old.scope"], ["Reload"]
    ]  # fmt: skip
