"""The daemon's own lines, against a journal that may be stuck, slow or away."""

import logging
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from llmgwd.host import logging as host_logging
from llmgwd.host.logging import JournalHandler, QueuedHandler, TextHandler, encode, fields, setup_logging


class Sink(QueuedHandler):
    """Writes into a list; can be made to hang or to fail."""

    def __init__(self, length: int) -> None:
        self.written: list[str] = []
        self.failing = False
        self.free = threading.Event()
        self.free.set()
        self.reached = threading.Event()
        super().__init__(length)

    def render(self, record: logging.LogRecord) -> bytes:
        return self.format(record).encode()

    def write(self, entry: bytes) -> None:
        self.reached.set()
        assert self.free.wait(10)
        if self.failing:
            raise OSError
        self.written.append(entry.decode())


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    logger = logging.Logger("llmgwd.test")  # not in the tree: nothing else hears it
    yield logger
    for handler in logger.handlers:
        handler.flush()
        handler.close()


@pytest.fixture
def root() -> Iterator[logging.Logger]:
    """The root logger, put back afterwards."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield root
    for handler in [handler for handler in root.handlers if handler not in handlers]:
        root.removeHandler(handler)
        handler.close()
    root.setLevel(level)


def record(text: str, *args: object, level: int = logging.INFO, **extra: object) -> logging.LogRecord:
    made = logging.LogRecord("llmgwd.keeper", level, "/keeper.py", 7, text, args, None, "start")
    vars(made).update(extra)
    return made


def test_an_entry_has_the_fields_of_the_shard_and_no_arguments() -> None:
    made = record(
        "shard %s: %s", "a", "ready", LLMGW_SHARD="a", LLMGW_REPLICA="", LLMGW_STATE="ready", other=1
    )
    assert fields(made, made.getMessage(), "llmgwd") == {
        "MESSAGE": "shard a: ready",
        "PRIORITY": "6",
        "SYSLOG_IDENTIFIER": "llmgwd",
        "LOGGER": "llmgwd.keeper",
        "CODE_FILE": "/keeper.py",
        "CODE_LINE": "7",
        "CODE_FUNC": "start",
        "LLMGW_SHARD": "a",
        "LLMGW_STATE": "ready",
    }


@pytest.mark.parametrize(
    ("level", "priority"),
    [(5, "7"), (10, "7"), (20, "6"), (25, "6"), (30, "4"), (40, "3"), (50, "2"), (60, "2")],
)
def test_levels_become_those_of_syslog(level: int, priority: str) -> None:
    assert fields(record("text", level=level), "text", "llmgwd")["PRIORITY"] == priority


def test_a_message_that_no_datagram_takes_is_cut_between_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_logging, "LONGEST_MESSAGE_BYTES", 5)
    assert fields(record(""), "123€€", "llmgwd")["MESSAGE"] == "123 …"


def test_an_entry_is_a_datagram_of_the_native_protocol() -> None:
    assert encode({"MESSAGE": "last words:\nbye", "LLMGW_SHARD": "größe", "CODE_FILE": "\udcff"}) == (
        b"MESSAGE\n\x0f\0\0\0\0\0\0\0last words:\nbye\n"
        + "LLMGW_SHARD=größe\n".encode()
        + b"CODE_FILE=\\udcff\n"
    )


def test_the_caller_goes_on_while_the_journal_hangs_and_what_was_lost_is_told(logger: logging.Logger) -> None:
    sink = Sink(length=3)
    logger.addHandler(sink)
    sink.free.clear()
    logger.info("in the writer's hand")
    assert sink.reached.wait(10)
    for number in range(1000):
        logger.info("line %d", number)
    sink.free.set()
    sink.flush()
    assert sink.written == [
        "in the writer's hand",
        "997 lines of this log were lost: they could not be written in time",
        "line 0",
        "line 1",
        "line 2",
    ]


def test_lines_that_a_journal_refuses_are_told_when_it_is_back(logger: logging.Logger) -> None:
    sink = Sink(length=10)
    logger.addHandler(sink)
    sink.failing = True
    logger.info("one")
    logger.info("two")
    sink.flush()
    sink.failing = False
    logger.info("three")
    sink.flush()
    assert sink.written == ["three", "2 lines of this log were lost: they could not be written in time"]


def test_a_hanging_journal_does_not_hold_up_the_end_for_long(
    logger: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_logging, "FLUSH_TIMEOUT_S", 0.01)
    sink = Sink(length=1)
    sink.free.clear()
    logger.addHandler(sink)
    logger.info("in the writer's hand")
    assert sink.reached.wait(10)
    logger.info("in the queue")
    sink.flush()
    sink.close()
    assert sink.written == []
    sink.free.set()


def test_closing_writes_what_is_queued_and_ends_the_thread() -> None:
    sink = Sink(length=10)
    sink.handle(record("one"))
    sink.handle(record("two"))
    sink.close()
    assert (sink.written, sink._thread.is_alive()) == (["one", "two"], False)


def test_an_entry_arrives_at_the_journals_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_logging, "JOURNAL_SOCKET", str(tmp_path / "socket"))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as journal:
        journal.bind(str(tmp_path / "socket"))
        handler = JournalHandler("llmgwd")
        handler.handle(record("text", LLMGW_SHARD="a"))
        handler.close()
        assert journal.recv(4096) == (
            b"MESSAGE=text\nPRIORITY=6\nSYSLOG_IDENTIFIER=llmgwd\nLOGGER=llmgwd.keeper\n"
            b"CODE_FILE=/keeper.py\nCODE_LINE=7\nCODE_FUNC=start\nLLMGW_SHARD=a\n"
        )


def test_without_a_journal_lines_are_text_on_standard_error(
    root: logging.Logger, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JOURNAL_STREAM", raising=False)
    setup_logging(level="WARNING")
    logging.getLogger("llmgwd").info("not this one")
    logging.getLogger("llmgwd").warning("several\nlines")
    root.handlers[-1].flush()
    assert capfd.readouterr().err.partition(" WARNING ")[2] == "several\nlines\n"


def test_setting_it_up_again_changes_the_level_and_adds_nothing(root: logging.Logger) -> None:
    setup_logging(level=logging.INFO)
    setup_logging(level=logging.DEBUG)
    ours = [type(handler) for handler in root.handlers if isinstance(handler, QueuedHandler)]
    assert (ours, root.level) == ([TextHandler], logging.DEBUG)


@pytest.mark.parametrize(("named", "is_journal"), [("ours", True), ("another", False)])
def test_standard_error_is_the_journal_when_systemd_said_so(
    named: str, is_journal: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stderr = os.fstat(2)
    monkeypatch.setattr(host_logging, "JOURNAL_SOCKET", str(tmp_path))
    inode = stderr.st_ino if named == "ours" else stderr.st_ino + 1
    monkeypatch.setenv("JOURNAL_STREAM", f"{stderr.st_dev}:{inode}")
    assert host_logging.standard_error_is_journal() is is_journal
