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
from hypothesis import given
from hypothesis import strategies as st

from llmgwd.cli import terminal
from llmgwd.cli.shard_table import shard_table, without_directories
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
ID  STATE    ENGINE   MODEL  ENDPOINT  REASON
a   {ready}    command
b   {failed}   command                   exited with status 3…
c   stopped  command
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
        [
            "a: loading, N s: answers 503: loaded 3 of 80 shards of thi…",
            "a: ready after N s: answers 503\n",
            "",
        ],
    )


def test_who_may_not_read_logs_still_sees_the_state(node: FakeNode) -> None:
    node.put("a", State="loading")
    node.fail("TailShard", "org.freedesktop.DBus.Error.AccessDenied", "no")
    screen = Screen(node, "wait", "a", "--for", "ready", on="err")
    screen.until("loading")
    node.change("a", State="ready")

    assert screen.finish_waiting() == (0, ["a: loading, N s", "a: ready after N s\n", ""])


def test_several_that_are_waited_for_share_the_line(node: FakeNode) -> None:
    for shard_id in ("a", "b"):
        node.put(shard_id, State="ready")
    screen = Screen(node, "stop", "--all", on="err")
    screen.until("draining, b draining")
    node.change("b", State="stopped", Reason="did not stop in 2 s, killed")
    screen.until("a: draining")
    node.change("a", State="stopped", Reason="stopped")

    assert screen.finish_waiting() == (
        0,
        [
            "2 shards, N s: a draining, b draining",
            "b: stopped after N s: did not stop in N s, killed\n",
            "a: draining, N s: being stopped",
            "a: stopped after N s\n",
            "",
        ],
    )


def test_what_fails_is_said_once_with_the_last_words(node: FakeNode) -> None:
    screen = Screen(node, "start", "a", "--wait", on="err")
    screen.until("a: pending")
    node.do("log", id="a", lines=["oh no"])
    node.change("a", State="failed", Reason="engine exited 37")

    status, seen = screen.finish()

    assert (status, seen.rpartition(ERASE)[2]) == (
        1, "llmgwctl: cannot start shard a: failed: engine exited 37\n  oh no\n"
    )  # fmt: skip


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


def test_the_last_column_gives_way_first_and_the_first_last() -> None:
    rows = [("a" * 30, "b" * 20, "c" * 40)]
    headings = ("ID", "MODEL", "REASON")

    assert table(headings, rows, width=80) == [
        "ID" + " " * 30 + "MODEL" + " " * 17 + "REASON", "a" * 30 + "  " + "b" * 20 + "  " + "c" * 25 + "…"
    ]  # fmt: skip
    assert table(headings, rows, width=60)[1] == "a" * 30 + "  " + "b" * 13 + "…" + "  " + "c" * 11 + "…"
    assert table(headings, rows, width=40)[1] == "a" * 19 + "…" + "  " + "b" * 7 + "…" + "  " + "c" * 7 + "…"
    assert table(headings, rows, width=5)[1] == "…  b…"
    assert table(headings, rows)[1] == "  ".join(rows[0])


CELL = st.text(st.sampled_from("ab/漢\u0301…"), max_size=40)


@given(
    st.lists(st.tuples(CELL, CELL, CELL, CELL, st.sampled_from([(0, 1), (1, 12)])), max_size=3),
    st.integers(1, 100),
)
def test_no_line_of_a_list_is_wider_than_the_terminal(
    drawn: list[tuple[str, str, str, str, tuple[int, int]]], width: int
) -> None:
    shards = [
        shard(Id=id, Model=model, Endpoint=endpoint, Reason=reason, Rank=rank, Nodes=nodes)
        for id, model, endpoint, reason, (rank, nodes) in drawn
    ]

    assert max(map(terminal.columns, shard_table(shards, width=width))) <= width


def test_a_wide_list_loses_directories_then_ranks_then_the_end_of_the_reason() -> None:
    alone = shard(Model="/var/lib/llmgw/qwen/model.gguf", Reason="serves")
    of_two = alone | {"Id": "other", "Rank": 1, "Nodes": 2}

    def at(width: int | None, *shards: dict[str, object]) -> str:
        return "\n".join(shard_table(shards, width=width))

    assert (
        at(None, alone)
        == at(96, alone)
        == """\
ID    STATE  ENGINE     MODEL                           RANK  ENDPOINT               REASON
demo  ready  llama-cpp  /var/lib/llmgw/qwen/model.gguf  0/1   http://127.0.0.1:8080  serves"""
    )
    assert (
        at(85, alone)
        == """\
ID    STATE  ENGINE     MODEL                    RANK  ENDPOINT               REASON
demo  ready  llama-cpp  …/llmgw/qwen/model.gguf  0/1   http://127.0.0.1:8080  serves"""
    )
    assert (
        at(70, alone)
        == """\
ID    STATE  ENGINE     MODEL         ENDPOINT               REASON
demo  ready  llama-cpp  …/model.gguf  http://127.0.0.1:8080  serves"""
    )
    assert (
        at(80, alone | {"Reason": "did not answer 3 times"})
        == """\
ID    STATE  ENGINE     MODEL         ENDPOINT               REASON
demo  ready  llama-cpp  …/model.gguf  http://127.0.0.1:8080  did not answer 3 t…"""
    )
    assert (
        at(76, alone, of_two)
        == """\
ID     STATE  ENGINE     MODEL         RANK  ENDPOINT               REASON
demo   ready  llama-cpp  …/model.gguf  0/1   http://127.0.0.1:8080  serves
other  ready  llama-cpp  …/model.gguf  1/2   http://127.0.0.1:8080  serves"""
    )


@pytest.mark.parametrize(
    ("path", "most", "kept"),
    [
        ("/srv/a/m", 8, "/srv/a/m"),
        ("/srv/a/m", 7, "…/a/m"),
        ("/srv/a/m", 0, "…/m"),
        ("/srv/models/", 9, "…/models/"),
        ("Qwen/Qwen3-8B", 5, "…/Qwen3-8B"),
        ("/m", 0, "/m"),
        ("a/b", 2, "a/b"),
        ("model", 2, "model"),
        ("", 0, ""),
    ],
)
def test_of_a_path_the_last_parts_stay(path: str, most: int, kept: str) -> None:
    assert without_directories(path, most) == kept


def shard(**values: object) -> dict[str, object]:
    return {
        "Id": "demo", "State": "ready", "Health": "ok", "Engine": "llama-cpp", "Model": "", "Rank": 0,
        "Nodes": 1, "Endpoint": "http://127.0.0.1:8080", "Reason": "", **values,
    }  # fmt: skip


def test_what_has_no_value_has_no_line() -> None:
    assert paragraph([("Shard", "a"), ("Reason", ""), ("Pid", "1")]) == ["Shard:  a", "Pid:    1"]
    assert paragraph([]) == []


@pytest.mark.parametrize(
    ("text", "most", "kept"), [("abc", 3, "abc"), ("abcd", 3, "ab…"), ("漢字", 3, "漢…")]
)
def test_a_cut_text_ends_with_an_ellipsis(text: str, most: int, kept: str) -> None:
    assert terminal.cut(text, most) == kept
