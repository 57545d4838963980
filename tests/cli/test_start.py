"""`llmgwctl start`: what it asks for, and what it says while it waits."""

from pathlib import Path

import pytest

from tests.fakes.command import Outcome
from tests.fakes.node import FakeNode

BUSY = "org.llmgw.Node1.Error.Busy"


def test_a_start_sends_each_key_with_its_signature(node: FakeNode) -> None:
    outcome = node.run(
        "start", "a", "--engine", "vllm", "--model", "/srv/m", "--port", "8001", "--gpu", "0",
        "--gpu", "GPU-1",
        "--set", "ready_timeout_s=600", "--set", "memory_max=1073741824", "--set", "verify_listener=false",
        "--set", "environment={A='1'}", "--set", "replica_id=r-1", "--set", 'peers=["10.0.0.2"]',
        "--set", 'sidecars=[{name="head", command=["/bin/true"], waits_for_leader=true}]',
        "--", "--max-model-len", "4096",
    )  # fmt: skip

    assert outcome == Outcome(0, "", "a: accepted\n")
    assert node.calls() == [
        [
            "StartShard",
            "a",
            {
                "engine": ["s", "vllm"],
                "model": ["s", "/srv/m"],
                "port": ["u", 8001],
                "gpus": ["as", ["0", "GPU-1"]],
                "ready_timeout_s": ["d", 600.0],
                "memory_max": ["t", 1073741824],
                "verify_listener": ["b", False],
                "environment": ["a{ss}", {"A": "1"}],
                "replica_id": ["s", "r-1"],
                "peers": ["as", ["10.0.0.2"]],
                "sidecars": [
                    "aa{sv}",
                    [
                        {
                            "name": ["s", "head"],
                            "command": ["as", ["/bin/true"]],
                            "waits_for_leader": ["b", True],
                        }
                    ],
                ],
                "args": ["as", ["--max-model-len", "4096"]],
            },
        ]
    ]


def test_what_fits_no_key_is_sent_as_it_is_for_the_daemon_to_judge(node: FakeNode) -> None:
    outcome = node.run(
        "start", "a", "--set", "modell=x", "--set", "port=-1", "--set", "model=7", "--set", "gpus=[0, 1]",
        "--set", "environment={A=1}", "--set", "sidecars=[]", "--set", "args=[]", "--set", "rank=1.5",
    )  # fmt: skip

    assert outcome == Outcome(0, "", "a: accepted\n")
    assert node.calls() == [
        [
            "StartShard",
            "a",
            {
                "modell": ["s", "x"],
                "port": ["x", -1],
                "model": ["x", 7],
                "gpus": ["av", [["x", 0], ["x", 1]]],
                "environment": ["a{sv}", {"A": ["x", 1]}],
                "sidecars": ["aa{sv}", []],
                "args": ["as", []],
                "rank": ["d", 1.5],
            },
        ]
    ]


def test_flags_override_the_file_and_the_engine_command_takes_its_argv(
    node: FakeNode, tmp_path: Path
) -> None:
    spec = tmp_path / "spec.toml"
    spec.write_text(
        """
        engine = "command"
        port = 9000
        command = ["/bin/false"]
        health_path = "/health"

        [[sidecars]]
        name = "head"
        command = ["/bin/sleep", "1"]
        """
    )

    outcome = node.run("start", "-x", "--file", str(spec), "--port", "9001", "--", "/bin/sleep", "--", "5")

    assert outcome.status == 2  # -x looks like an option
    outcome = node.run(
        "start", "--file", str(spec), "--port", "9001", "--", "-x", "--", "/bin/sleep", "--", "5"
    )
    assert outcome == Outcome(0, "", "-x: accepted\n")
    assert node.calls() == [
        [
            "StartShard",
            "-x",
            {
                "engine": ["s", "command"],
                "port": ["u", 9001],
                "command": ["as", ["/bin/sleep", "--", "5"]],
                "health_path": ["s", "/health"],
                "sidecars": ["aa{sv}", [{"name": ["s", "head"], "command": ["as", ["/bin/sleep", "1"]]}]],
            },
        ]
    ]


def test_a_file_that_cannot_be_used_is_named(node: FakeNode, tmp_path: Path) -> None:
    broken = tmp_path / "broken.toml"
    broken.write_text("engine = ")

    assert node.run("start", "a", "--file", "/nowhere.toml") == Outcome(
        1, "", "llmgwctl: cannot start shard a: cannot read /nowhere.toml: No such file or directory\n"
    )
    assert node.run("start", "a", "--file", str(broken)) == Outcome(
        1, "", f"llmgwctl: cannot start shard a: {broken} is not TOML: Invalid value (at end of document)\n"
    )
    assert node.calls() == []


def test_what_no_message_can_carry_is_refused_before_it_is_sent(node: FakeNode, tmp_path: Path) -> None:
    spec = tmp_path / "spec.toml"
    spec.write_text('model = "a\\u0000b"')

    assert node.run("start", "a", "--file", str(spec)) == Outcome(
        1, "", "llmgwctl: cannot start shard a: InvalidSpec: model: got 'a\\x00b', takes UTF-8 without NUL\n"
    )
    assert node.run("start", "a", "--set", f"memory_max={1 << 64}") == Outcome(
        1,
        "",
        "llmgwctl: cannot start shard a: InvalidSpec: "
        "memory_max: got a number beyond 64 bits, which no message can carry\n",
    )


def test_a_waiting_start_tells_each_state_and_ends_when_it_is_ready(node: FakeNode) -> None:
    node.after(
        "ListShards",
        ("a", {"State": "starting", "Reason": "waiting for 10.0.0.1:6379"}),
        ("a", {"Reason": "waiting for 10.0.0.1:6379 (2nd)"}),
        ("a", {"State": "loading", "Reason": ""}),
        ("a", {"State": "ready"}),
    )

    assert node.run("start", "a", "--engine", "vllm", "--wait") == Outcome(
        0, "", "a: pending\na: starting: waiting for 10.0.0.1:6379\na: loading\na: ready\n"
    )


@pytest.mark.parametrize("state", ["failed", "stopped", "draining"])
def test_a_waiting_start_fails_with_the_shard(node: FakeNode, state: str) -> None:
    node.after("ListShards", ("a", {"State": state, "Reason": "EngineUnavailable: no /bin/vllm"}))

    assert node.run("start", "a", "--wait") == Outcome(
        1,
        "",
        f"a: pending\nllmgwctl: cannot start shard a: {state}: EngineUnavailable: no /bin/vllm\n",
    )


def test_a_waiting_start_that_fails_shows_the_engines_last_words(node: FakeNode) -> None:
    start = node.begin("start", "a", "--wait")
    node.await_answer("ListShards")
    node.do("log", id="a", lines=["1", "2", "Traceback:", "  File x", "", "oh\x07"])
    node.change("a", State="failed", Reason="engine exited 37")

    assert start.finish() == Outcome(
        1,
        "",
        "a: pending\nllmgwctl: cannot start shard a: failed: engine exited 37\n"
        "  2\n  Traceback:\n    File x\n  \n  oh\\x07\n",
    )
    assert [call for call in node.do("calls") if call[0] == "TailShard"] == [["TailShard", "a", 5]]


@pytest.mark.parametrize(
    "error", ["org.freedesktop.DBus.Error.AccessDenied", "org.llmgw.Node1.Error.Internal"]
)
def test_last_words_that_cannot_be_had_are_not_missed(node: FakeNode, error: str) -> None:
    node.fail("TailShard", error, "no")
    node.after("ListShards", ("a", {"State": "failed", "Reason": "engine exited 37"}))

    assert node.run("start", "a", "--wait") == Outcome(
        1, "", "a: pending\nllmgwctl: cannot start shard a: failed: engine exited 37\n"
    )


@pytest.mark.parametrize("more", [(), ("--wait",)])
def test_a_start_of_what_is_ready_says_so_and_ends_at_once(node: FakeNode, more: tuple[str, ...]) -> None:
    node.put("a", State="ready")

    assert node.run("start", "a", *more) == Outcome(0, "", "a: ready already\n")


@pytest.mark.parametrize(
    ("state", "said"), [("loading", "loading already"), ("failed", "accepted"), ("stopped", "accepted")]
)
def test_a_start_says_whether_there_was_something_to_be_started(
    node: FakeNode, state: str, said: str
) -> None:
    node.put("a", State=state)

    assert node.run("start", "a") == Outcome(0, "", f"a: {said}\n")


def test_a_refusal_is_one_line(node: FakeNode) -> None:
    node.fail("StartShard", BUSY, "Busy: shard a\nis draining")

    assert node.run("start", "a") == Outcome(
        1, "", "llmgwctl: cannot start shard a: Busy: shard a\\nis draining\n"
    )


def test_a_start_whose_answer_is_lost_is_asked_for_again(node: FakeNode) -> None:
    node.do("die on", member="StartShard")
    start = node.begin("start", "a", "--engine", "vllm")
    node.wait_until_dead()
    node.start()

    assert start.finish() == Outcome(0, "", "a: accepted\n")
    assert node.calls() == [["StartShard", "a", {"engine": ["s", "vllm"]}]]


def test_a_start_goes_on_waiting_while_the_daemon_is_restarted(node: FakeNode) -> None:
    start = node.begin("start", "a", "--wait")
    node.await_answer("ListShards")
    node.kill()
    node.start({"Id": "a", "State": "ready", "Reason": ""})

    assert start.finish() == Outcome(0, "", "a: pending\na: ready\n")
