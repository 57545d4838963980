"""From what a gate left behind to exit code, signal, sentence and cause."""

import pytest

from llmgwd.supervisor import ending


@pytest.mark.parametrize(
    ("status", "changes", "words"),
    [
        ("0", {"exit_code": 0, "exit_signal": ""}, "exited 0"),
        ("37", {"exit_code": 37, "exit_signal": ""}, "exited 37"),
        ("127", {"exit_code": 127, "exit_signal": ""}, "exited 127"),
        ("128", {"exit_code": 128, "exit_signal": ""}, "exited 128"),
        ("134", {"exit_code": 134, "exit_signal": "SIGABRT"}, "was killed by SIGABRT"),
        ("137", {"exit_code": 137, "exit_signal": "SIGKILL"}, "was killed by SIGKILL"),
        ("139", {"exit_code": 139, "exit_signal": "SIGSEGV"}, "was killed by SIGSEGV"),
        ("143", {"exit_code": 143, "exit_signal": "SIGTERM"}, "was killed by SIGTERM"),
        ("255", {"exit_code": 255, "exit_signal": ""}, "exited 255"),
        ("closed", {"exit_code": -1}, "never ran"),
        ("", {"exit_code": 137, "exit_signal": "SIGKILL", "killed": True}, "was killed by SIGKILL"),
    ],
)
def test_an_exit_file_says_how_it_ended(status: str, changes: dict[str, object], words: str) -> None:
    assert ending.read(status, lost_gate=False) == (changes, words)


def test_of_an_engine_that_outlived_its_gate_nothing_is_known() -> None:
    assert ending.read("", lost_gate=True) == ({"exit_code": -1}, "lost its gate")


def test_a_gate_that_could_say_how_it_ended_was_not_lost() -> None:
    assert ending.read("9", lost_gate=True) == ({"exit_code": 9, "exit_signal": ""}, "exited 9")


@pytest.mark.parametrize(
    ("reason", "exit_code", "exit_signal", "stopped", "cause"),
    [
        ("stopped", 143, "SIGTERM", True, "stopped"),
        ("host rebooted", -1, "", True, "stopped"),
        ("host rebooted", -1, "", False, "rebooted"),
        ("engine was killed by SIGSEGV", 139, "SIGSEGV", False, "SIGSEGV"),
        ("engine exited 0", 0, "", False, "exited-0"),
        ("engine exited 37", 37, "", False, "exited-37"),
        ("ScopeFailed: no", -1, "", False, "failed"),
    ],
)
def test_ends_are_counted_by_cause(
    reason: str, exit_code: int, exit_signal: str, stopped: bool, cause: str
) -> None:
    assert ending.cause(reason, exit_code, exit_signal, stopped) == cause
