"""Which lines are a shard's. Reading itself is tested on a real journal, in tests/machine."""

import errno

import pytest

from llmgwd.host import journal_reader
from llmgwd.host.journal import JournalUnavailable
from llmgwd.host.journal_reader import EngineLog, Selection, matches
from llmgwd.host.journal_text import Record


def selection(*, uids: frozenset[int], **identifiers: str) -> Selection:
    return Selection(
        identifiers={f"a/{process}": process for process in identifiers.values()},
        uids=uids,
        since_us=0,
        unit="llmgw-shard-a.scope",
    )


def test_an_identifier_counts_from_the_engines_user_or_from_inside_the_scope() -> None:
    assert matches(selection(uids=frozenset({990, 0}), one="engine", two="ray-head")) == [
        [
            "SYSLOG_IDENTIFIER=a/engine",
            "SYSLOG_IDENTIFIER=a/ray-head",
            "_TRANSPORT=stdout",
            "_UID=0",
            "_UID=990",
        ],
        [
            "SYSLOG_IDENTIFIER=a/engine",
            "SYSLOG_IDENTIFIER=a/ray-head",
            "_TRANSPORT=stdout",
            "_SYSTEMD_UNIT=llmgw-shard-a.scope",
        ],
    ]


def test_without_users_an_identifier_counts_from_anybody() -> None:
    assert matches(selection(uids=frozenset(), one="engine")) == [
        ["SYSLOG_IDENTIFIER=a/engine", "_TRANSPORT=stdout"]
    ]


def test_nothing_selected_is_nothing_and_not_the_whole_journal() -> None:
    assert EngineLog("llmgw").tail(selection(uids=frozenset({0})), 10) == []


class Journal(journal_reader._Records):
    """Entries from memory, oldest first: when, and what or the error that reading it is."""

    def __init__(self, *entries: tuple[int, bytes | int], since_us: int = 0) -> None:
        self.entries = list(entries)
        self._identifiers = {b"a/engine": "engine"}
        self._since_us = since_us

    def seek_tail(self) -> None:
        self.ahead = list(self.entries)

    def _previous(self) -> bool:
        if not self.ahead:
            return False
        self.realtime_us, self.message = self.ahead.pop()
        return True

    def _get_realtime(self) -> int:
        return self.realtime_us

    def _get(self, name: str) -> bytes:
        if name == "SYSLOG_IDENTIFIER":
            return b"a/engine"
        if name != "MESSAGE":
            raise KeyError(name)
        if isinstance(self.message, int):
            raise OSError(self.message, "")
        return self.message


def test_a_damaged_entry_is_passed_over() -> None:
    journal = Journal((1, b"one"), (2, errno.EBADMSG), (3, b"three"))
    assert list(journal.newest_first()) == [
        Record("engine", b"three", broken=False, realtime_us=3),
        Record("engine", b"one", broken=False, realtime_us=1),
    ]


def test_any_other_error_ends_the_reading() -> None:
    with pytest.raises(OSError, match="Errno 5"):
        list(Journal((1, errno.EIO)).newest_first())


def test_what_was_printed_before_this_run_is_not_read() -> None:
    journal = Journal((9, b"of the run before"), (10, b"of this run"), since_us=10)
    assert list(journal.newest_first()) == [Record("engine", b"of this run", broken=False, realtime_us=10)]


@pytest.mark.parametrize(
    ("namespace", "text"),
    [
        ("llmgw", "cannot read journal namespace llmgw: Too many open files"),
        ("", "cannot read the journal: Too many open files"),
    ],
)
def test_a_journal_that_cannot_be_read_is_named(
    namespace: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(journal_reader, "_Records", fail)
    with pytest.raises(JournalUnavailable) as refused:
        EngineLog(namespace).tail(selection(uids=frozenset({0}), one="engine"), 10)
    assert str(refused.value) == text
