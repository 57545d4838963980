"""On a terminal: colour where it is wanted, no line too long, one line rewritten during a wait."""

import fcntl
import os
import pty
import re
import struct
import termios
from signal import SIGINT
from typing import Literal

import pytest

from llmgwd.cli import terminal
from llmgwd.cli.table import paragraph, table
from tests.fakes.node import FakeNode

ERASE = "\r\x1b[K"


class Screen:
    """A terminal of 60 columns that a command believes to write to."""

    def __init__(self, node: FakeNode, *words: str, on: Literal["out", "err"], **environment: str) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))
        names = {"TERM": "xterm", "COLUMNS": "60", **environment}
        self._command = node.beside(**names).begin(*words, **{on: slave})
        os.close(slave)
        self._seen = b""

    def until(self, text: str) -> None:
        while text.encode() not in self._seen:
            self._seen += os.read(self._master, 4096)

    def interrupt(self) -> None:
        self._command.signal(SIGINT)

    def finish(self) -> tuple[int, str]:
        """The exit status, and all that was written."""
        try:
            while piece := os.read(self._master, 4096):
                self._seen += piece
        except OSError:
            pass  # what a pty answers when nobody has its other end any more
        os.close(self._master)
        return self._command.finish().status, self._seen.decode().replace("\r\n", "\n")

    def finish_waiting(self) -> tuple[int, list[str]]:
        """The exit status, and each line that was to be seen; how many seconds it took is left open."""
        status, seen = self.finish()
        lines = re.sub(r"\d+ s\b", "N s", seen).split(ERASE)
        return status, [line for line, before in zip(lines[1:], lines, strict=False) if line != before]


LIST = """\
ID  STATE    ENGINE   MODEL  RANK  ENDPOINT  REASON
a   {ready}    command         0/1
b   {failed}   command         0/1             exited with st…
c   stopped  command         0/1
"""


@pytest.mark.parametrize(
    ("environment", "ready", "failed"),
    [
        ({}, "\x1b[32mready\x1b[0m", "\x1b[31mfailed\x1b[0m"),
        ({"NO_COLOR": ""}, "\x1b[32mready\x1b[0m", "\x1b[31mfailed\x1b[0m"),
        ({"NO_COLOR": "1"}, "ready", "failed"),
    ],
)
def test_states_have_colours_and_lines_end_at_the_edge(
    node: FakeNode, environment: dict[str, str], ready: str, failed: str
) -> None:
    node.put("a", State="ready")
    node.put("b", State="failed", Reason="exited with status 37 after 12 s")
    node.put("c", State="stopped")

    assert Screen(node, "list", on="out", **environment).finish() == (
        0,
        LIST.format(ready=ready, failed=failed),
    )


def test_a_dumb_terminal_gets_neither_colour_nor_cut_lines(node: FakeNode) -> None:
    node.put("b", State="failed", Reason="exited with status 37 after 12 s")

    status, seen = Screen(node, "list", on="out", TERM="dumb").finish()

    assert (status, seen.splitlines()[1:]) == (
        0, ["b   failed  command         0/1             exited with status 37 after 12 s"]
    )  # fmt: skip


def test_waiting_rewrites_one_line_with_the_last_line_of_the_log(node: FakeNode) -> None:
    node.put("a", State="loading", Reason="answers 503")
    node.do("log", id="a", lines=["one", "loaded 3 of 80 shards of this rather large model"])
    screen = Screen(node, "wait", "a", "--for", "ready", on="err")
    screen.until("loaded 3")
    node.change("a", State="ready")

    assert screen.finish_waiting() == (
        0,
        ["a: loading, N s: answers 503: loaded 3 of 80 shards of thi…", "a: ready, N s\n", ""],
    )


def test_who_may_not_read_logs_still_sees_the_state(node: FakeNode) -> None:
    node.put("a", State="loading")
    node.fail("TailShard", "org.freedesktop.DBus.Error.AccessDenied", "no")
    screen = Screen(node, "wait", "a", "--for", "ready", on="err")
    screen.until("loading")
    node.change("a", State="ready")

    assert screen.finish_waiting() == (0, ["a: loading, N s", "a: ready, N s\n", ""])


def test_several_that_are_waited_for_share_the_line(node: FakeNode) -> None:
    for shard_id in ("a", "b"):
        node.put(shard_id, State="ready")
    screen = Screen(node, "stop", "--all", on="err")
    screen.until("draining, b draining")
    node.change("b", State="stopped")
    screen.until("a: draining")
    node.change("a", State="stopped")

    assert screen.finish_waiting() == (
        0,
        [
            "2 shards, N s: a draining, b draining",
            "b: stopped, N s\n",
            "a: draining, N s: being stopped",
            "a: stopped, N s\n",
            "",
        ],
    )


def test_an_interrupt_leaves_the_line_empty(node: FakeNode) -> None:
    node.put("a", State="loading")
    screen = Screen(node, "wait", "a", "--for", "ready", on="err")
    screen.until("loading")
    screen.interrupt()

    status, seen = screen.finish()

    assert (status, seen.endswith(ERASE), "Traceback" in seen) == (130, True, False)


def test_columns_are_aligned_by_what_a_terminal_shows() -> None:
    assert table(("ID", "X"), [("漢字", "1"), ("e\u0301", "2"), ("abc\n", "")]) == [
        "ID     X", "漢字   1", "e\u0301      2", "abc\\n"
    ]  # fmt: skip


def test_only_the_last_column_is_cut_and_never_to_nothing() -> None:
    rows = [("a" * 30, "b" * 40)]

    assert table(("ID", "REASON"), rows, width=50) == [
        "ID" + " " * 30 + "REASON", "a" * 30 + "  " + "b" * 17 + "…"
    ]  # fmt: skip
    assert table(("ID", "REASON"), rows, width=20)[1] == "a" * 30 + "  " + "b" * 11 + "…"


def test_what_has_no_value_has_no_line() -> None:
    assert paragraph([("Shard", "a"), ("Reason", ""), ("Pid", "1")]) == ["Shard:  a", "Pid:    1"]
    assert paragraph([]) == []


@pytest.mark.parametrize(
    ("text", "most", "kept"), [("abc", 3, "abc"), ("abcd", 3, "ab…"), ("漢字", 3, "漢…")]
)
def test_a_cut_text_ends_with_an_ellipsis(text: str, most: int, kept: str) -> None:
    assert terminal.cut(text, most) == kept
