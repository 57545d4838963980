"""`llmgwctl logs`: the last lines, and with -f those that follow."""

import json
import os
import pwd
from pathlib import Path
from signal import SIGINT, SIGTERM
from typing import Any

import pytest

from llmgwd.cli.journal import Lines, Source
from tests.fakes.command import Outcome
from tests.fakes.node import FakeNode

SINCE = 1_700_000_000_000_000
SHARD: dict[str, Any] = {
    "Id": "a/b", "State": "ready", "Unit": "llmgw-shard-a-b.scope", "InvocationId": "cafe", "Started": SINCE,
    "Spec": {"engine": "vllm", "user": "daemon"},
}  # fmt: skip
WITH_SIDECAR: dict[str, Any] = SHARD | {
    "Spec": {
        "engine": "command",
        "user": "nobody-here",
        "sidecars": [{"name": "head", "command": ["/bin/true"]}],
    }
}


def record(message: Any, process: str = "engine", *, at: int = SINCE + 1, **more: str) -> dict[str, Any]:
    """As journalctl prints it."""
    return {
        "SYSLOG_IDENTIFIER": f"a/b/{process}", "MESSAGE": message, "__REALTIME_TIMESTAMP": str(at),
        "_SYSTEMD_INVOCATION_ID": "beef", **more,
    }  # fmt: skip


def read(shard: dict[str, Any], *records: dict[str, Any]) -> list[str]:
    lines = Lines(Source.of(shard, user=False))
    return [line for line in map(lines.read, records) if line is not None]


def test_the_tail_is_as_the_daemon_gives_it(node: FakeNode) -> None:
    node.put("a")
    node.do("log", id="a", lines=["one", "[head] two", "three \\x07"])

    assert node.run("logs", "a", "-n", "2") == Outcome(0, "[head] two\nthree \\x07\n")
    assert node.run("logs", "a") == Outcome(0, "one\n[head] two\nthree \\x07\n")
    assert node.run("logs", "a", "--json").json == ["one", "[head] two", "three \\x07"]
    assert [call for call in node.do("calls") if call[0] == "TailShard"] == [
        ["TailShard", "a", 2], ["TailShard", "a", 0], ["TailShard", "a", 0]
    ]  # fmt: skip


def test_no_lines_are_no_lines(node: FakeNode) -> None:
    node.put("a")
    node.do("log", id="a", lines=["one"])

    assert node.run("logs", "a", "-n", "0") == Outcome(0, "")
    assert node.run("logs", "a", "-n", "0", "--json").json == []
    assert node.run("logs", "zz", "-n", "0").status == 4


@pytest.mark.parametrize("more", [(), ("-f",)])
def test_no_shard_has_no_log(node: FakeNode, more: tuple[str, ...]) -> None:
    assert node.run("logs", "zz", *more) == Outcome(
        4, "", "llmgwctl: cannot show the log of shard zz: NoSuchShard: no shard zz\n"
    )


def test_lines_are_selected_by_what_journald_vouches_for() -> None:
    assert Source.of(SHARD, user=False).command(20) == [
        "journalctl", "--quiet", "--follow", "--lines=20", "--all", "--namespace=*", "--output=json",
        "--output-fields=MESSAGE,SYSLOG_IDENTIFIER,_LINE_BREAK,_SYSTEMD_INVOCATION_ID,_SYSTEMD_UNIT",
        "_TRANSPORT=stdout", "SYSLOG_IDENTIFIER=a/b/ray-head", "SYSLOG_IDENTIFIER=a/b/engine",
        "_SYSTEMD_UNIT=llmgw-shard-a-b.scope",
        "+", "_TRANSPORT=stdout", "SYSLOG_IDENTIFIER=a/b/ray-head", "SYSLOG_IDENTIFIER=a/b/engine",
        "_UID=0", f"_UID={pwd.getpwnam('daemon').pw_uid}",
    ]  # fmt: skip
    assert Source.of(WITH_SIDECAR, user=False).command(0)[-4:] == [
        "_TRANSPORT=stdout", "SYSLOG_IDENTIFIER=a/b/head", "SYSLOG_IDENTIFIER=a/b/engine", "_UID=0",
    ]  # fmt: skip


def test_lines_of_the_users_daemon_are_in_the_hosts_journal() -> None:
    command = Source.of(SHARD, user=True).command(10)

    assert "--namespace=*" not in command
    assert [word for word in command if "_INVOCATION_ID" in word] == [
        "--output-fields=MESSAGE,SYSLOG_IDENTIFIER,_LINE_BREAK,_SYSTEMD_INVOCATION_ID,_SYSTEMD_USER_UNIT"
    ]
    assert "_SYSTEMD_USER_UNIT=llmgw-shard-a-b.scope" in command
    assert command[-1] == f"_UID={os.getuid()}"


def test_lines_of_earlier_runs_are_left_out_and_of_later_ones_shown() -> None:
    assert read(
        SHARD,
        record("earlier", at=SINCE - 2),
        record("of this run, by a clock that was set back", at=SINCE - 1, _SYSTEMD_INVOCATION_ID="cafe"),
        record("of a process outside the scope", at=SINCE),
        record("later", at=SINCE + 5),
    ) == ["of this run, by a clock that was set back", "of a process outside the scope", "later"]


def test_a_shard_that_has_not_started_shows_nothing_of_earlier_runs() -> None:
    fresh = SHARD | {"Started": 0, "InvocationId": ""}

    assert read(fresh, record("earlier", _SYSTEMD_INVOCATION_ID="")) == []


def test_lines_say_whose_they_are_where_there_is_more_than_one_process() -> None:
    assert read(SHARD, record("one")) == ["one"]
    assert read(WITH_SIDECAR, record("one"), record("two", "head")) == ["[engine] one", "[head] two"]
    assert read(SHARD, record("one", "ray-head"), record("two")) == ["[ray-head] one", "[engine] two"]


def test_lines_that_journald_split_are_joined_by_process() -> None:
    assert read(
        WITH_SIDECAR,
        record("one ", _LINE_BREAK="line-max"),
        record("other", "head"),
        record("line", _LINE_BREAK="line-max"),
        record("!"),
    ) == ["[head] other", "[engine] one line!"]


def test_what_is_no_text_is_shown_as_the_daemon_shows_it() -> None:
    hard = record([255, 32, 7]), record(None), record(list(b"1 %\r2 %")), record("\x1b[31mred")

    assert read(SHARD, *hard) == ["\ufffd \\x07", "", "2 %", "red"]


class FakeJournal:
    """A `journalctl` that notes its arguments, and follows a file."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        program = directory / "journalctl"
        program.write_text(
            f'#!/bin/sh\nprintf "%s\\n" "$@" >{directory}/argv\n'
            f"exec tail --lines=+1 --follow {directory}/records\n"
        )
        program.chmod(0o755)
        (directory / "records").touch()

    def add(self, *records: dict[str, Any]) -> None:
        with (self.directory / "records").open("a") as file:
            file.writelines(json.dumps(one) + "\n" for one in records)

    @property
    def argv(self) -> list[str]:
        return (self.directory / "argv").read_text().splitlines()


@pytest.fixture
def journal(tmp_path: Path, node: FakeNode) -> FakeJournal:
    if os.geteuid() != 0:
        pytest.skip("only root may read every journal")
    node.environment["PATH"] = f"{tmp_path}:{os.environ['PATH']}"
    return FakeJournal(tmp_path)


def test_following_goes_on_while_the_daemon_is_away(node: FakeNode, journal: FakeJournal) -> None:
    node.do("put", values=SHARD)
    journal.add(record("earlier", at=SINCE - 1), record("one"), record("two"))
    logs = node.begin("logs", "a/b", "-f", "-n", "20")
    assert [logs.line() for _ in range(2)] == ["one\n", "two\n"]
    node.kill()
    journal.add(record("three"))

    assert logs.line() == "three\n"
    assert journal.argv == Source.of(SHARD, user=False).command(20)[1:]
    logs.signal(SIGTERM)
    assert logs.finish() == Outcome(-15, "")


def test_a_new_run_is_told_from_the_one_before(node: FakeNode, journal: FakeJournal) -> None:
    node.do("put", values=SHARD)
    scope = {"_SYSTEMD_UNIT": SHARD["Unit"]}
    journal.add(
        record("of this run", _SYSTEMD_INVOCATION_ID="cafe", **scope),
        record(
            "of a process outside the scope", _SYSTEMD_INVOCATION_ID="f00d", _SYSTEMD_UNIT="other.service"
        ),
        record("of the next", "ray-head", _SYSTEMD_INVOCATION_ID="beef", **scope),
        record("of the next, too", _SYSTEMD_INVOCATION_ID="beef", **scope),
        record("of this run, late", _SYSTEMD_INVOCATION_ID="cafe", **scope),
    )
    logs = node.begin("logs", "a/b", "-f")
    seen = [logs.line() for _ in range(6)]
    logs.signal(SIGTERM)
    for_programs = node.begin("logs", "a/b", "-f", "--json")
    seen_by_programs = [json.loads(for_programs.line()) for _ in range(5)]
    for_programs.signal(SIGTERM)

    assert (logs.finish(), for_programs.finish()) == (Outcome(-15, ""), Outcome(-15, ""))
    assert seen == [
        "of this run\n",
        "of a process outside the scope\n",
        "-- new run --\n",
        "[ray-head] of the next\n",
        "[engine] of the next, too\n",
        "[engine] of this run, late\n",
    ]
    assert seen_by_programs == [line.rstrip("\n") for line in seen if line != "-- new run --\n"]


def test_the_first_run_of_a_shard_that_has_not_started_is_no_new_one() -> None:
    lines = Lines(Source.of(SHARD | {"InvocationId": ""}, user=False))
    runs = [record("x", _SYSTEMD_INVOCATION_ID=run, _SYSTEMD_UNIT=SHARD["Unit"]) for run in ("a", "a", "b")]
    earlier = record("x", at=SINCE - 1, _SYSTEMD_INVOCATION_ID="0", _SYSTEMD_UNIT=SHARD["Unit"])

    assert [lines.begins_run(one) for one in (earlier, *runs)] == [False, False, False, True]


def test_following_for_programs_is_a_line_of_json_each(node: FakeNode, journal: FakeJournal) -> None:
    node.do("put", values=SHARD)
    journal.add(record('say "ü"'))
    logs = node.begin("logs", "a/b", "-f", "--json")

    assert json.loads(logs.line()) == 'say "ü"'
    assert "--lines=10" in journal.argv
    logs.signal(SIGTERM)
    logs.finish()


def test_following_ends_when_nobody_reads(node: FakeNode, journal: FakeJournal) -> None:
    node.do("put", values=SHARD)
    journal.add(record("one"))
    logs = node.begin("logs", "a/b", "-f")
    logs.line()
    logs.stop_reading()

    assert logs.finish() == Outcome(141, "")


def test_an_interrupt_ends_following_and_what_it_runs(node: FakeNode, journal: FakeJournal) -> None:
    node.do("put", values=SHARD)
    journal.add(record("one"))
    logs = node.begin("logs", "a/b", "-f")
    logs.line()
    children = Path(f"/proc/{logs.pid}/task/{logs.pid}/children").read_text().split()
    logs.signal(SIGINT)

    assert logs.finish() == Outcome(130, "")
    assert (len(children), [child for child in children if Path(f"/proc/{child}").exists()]) == (1, [])


def test_a_journalctl_that_fails_is_quoted(node: FakeNode, journal: FakeJournal) -> None:
    node.do("put", values=SHARD)
    (journal.directory / "journalctl").write_text("#!/bin/sh\necho Failed to open >&2\nexit 1\n")

    assert node.run("logs", "a/b", "-f") == Outcome(
        1, "", "llmgwctl: cannot show the log of shard a/b: journalctl ended: Failed to open\n"
    )


def test_a_machine_without_journalctl_is_told(node: FakeNode, journal: FakeJournal) -> None:
    node.do("put", values=SHARD)
    node.environment["PATH"] = "/nowhere"

    assert node.run("logs", "a/b", "-f") == Outcome(
        1,
        "",
        "llmgwctl: cannot show the log of shard a/b: cannot run journalctl: No such file or directory\n",
    )
