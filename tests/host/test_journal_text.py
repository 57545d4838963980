"""Records as lines for people."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgwd.host import journal_text
from llmgwd.host.journal_text import Line, Record, last_lines, shown


def whole(process: str, message: bytes, at: int = 0) -> Record:
    return Record(process, message, broken=False, realtime_us=at)


def piece(process: str, message: bytes, at: int = 0) -> Record:
    return Record(process, message, broken=True, realtime_us=at)


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (b"plain", "plain"),
        ("ein Größenwahn 🦙".encode(), "ein Größenwahn 🦙"),
        (b"  two blanks, a\ttab", "  two blanks, a\ttab"),
        (b"\xff\xfe\x80 not UTF-8", "\ufffd\ufffd\ufffd not UTF-8"),
        (b"\xed\xa0\x80 half a surrogate pair", "\ufffd\ufffd\ufffd half a surrogate pair"),
        (b"a\0b\x07c\x7f", "a\\x00b\\x07c\\x7f"),
        ("\x85 of the upper controls".encode(), "\\x85 of the upper controls"),
        (b"one\ntwo", "one\\x0atwo"),
        (b"\x1b[1;32mINFO\x1b[0m ready", "INFO ready"),
        (b"\x1b]0;title\x07text \x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "text link"),
        (b"\x1b(B\x1b7\x1b=kept", "kept"),
        (b"cut off \x1b[3", "cut off \\x1b[3"),
        (b"with a carriage return\r", "with a carriage return"),
        (b"10 %\r20 %\r30 %", "30 %"),
        (b"\r10 %\r20 %\r", "20 %"),
        (b"100 %\r      \r", "100 %"),
        (b"100 %\r\x1b[K\x1b[0m", "100 %"),
        (b"\r\r", ""),
        (b"", ""),
    ],
)
def test_a_line_is_shown(message: bytes, text: str) -> None:
    assert shown(message) == text


@given(st.binary())
def test_any_bytes_make_a_line_that_a_bus_and_a_terminal_bear(message: bytes) -> None:
    text = shown(message)
    assert [c for c in text.encode().decode() if c != "\t" and (c < " " or "\x7f" <= c < "\xa0")] == []


def test_the_last_lines_come_oldest_first() -> None:
    newest_first = [whole("engine", b"third", 3), whole("engine", b"second", 2), whole("engine", b"first", 1)]
    assert last_lines(newest_first, 2) == [Line("engine", "second", 2), Line("engine", "third", 3)]


def test_fewer_lines_than_wanted_are_all_there_are() -> None:
    assert last_lines([whole("engine", b"only", 1)], 5) == [Line("engine", "only", 1)]


def test_lines_of_several_processes_keep_their_order() -> None:
    newest_first = [whole("engine", b"3", 3), whole("ray-head", b"2", 2), whole("engine", b"1", 1)]
    assert last_lines(newest_first, 3) == [
        Line("engine", "1", 1),
        Line("ray-head", "2", 2),
        Line("engine", "3", 3),
    ]


def test_pieces_of_a_split_line_are_one_line_even_within_a_character() -> None:
    euro = "€".encode()
    newest_first = [
        whole("engine", b"after", 4),
        whole("engine", euro[2:] + b" end", 3),
        whole("ray-head", b"between", 2),
        piece("engine", euro[1:2], 1),
        piece("engine", b"beginning " + euro[:1], 1),
        whole("engine", b"before", 0),
    ]
    assert last_lines(newest_first, 4) == [
        Line("engine", "before", 0),
        Line("ray-head", "between", 2),
        Line("engine", "beginning € end", 3),
        Line("engine", "after", 4),
    ]


def test_the_oldest_wanted_line_is_whole() -> None:
    newest_first = [
        whole("engine", b"c"),
        piece("engine", b"b"),
        piece("engine", b"a"),
        whole("engine", b"0"),
    ]
    assert last_lines(newest_first, 1) == [Line("engine", "abc", 0)]


def test_a_line_that_has_not_ended_yet_is_shown_as_far_as_it_goes() -> None:
    newest_first = [piece("engine", b"b"), piece("engine", b"a"), whole("engine", b"0")]
    assert last_lines(newest_first, 2) == [Line("engine", "0", 0), Line("engine", "ab", 0)]


def test_no_more_records_are_read_than_it_takes() -> None:
    records = iter([whole("engine", str(n).encode(), n) for n in range(100)])
    last_lines(records, 3)
    assert next(records) == whole("engine", b"4", 4)


def test_a_process_that_was_silent_for_long_does_not_make_it_read_everything(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(journal_text, "LOOK_BACK_RECORDS", 5)
    records = iter([whole("ray-head", b"up", 999), *(whole("engine", b"x", n) for n in range(100))])
    assert last_lines(records, 1) == [Line("ray-head", "up", 999)]
    assert next(records) == whole("engine", b"x", 5)


def test_of_an_endless_line_the_end_is_kept_and_the_cut_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_text, "LONGEST_LINE_BYTES", 8)
    newest_first = [
        whole("engine", b"next"),
        whole("engine", b"9 end"),
        piece("engine", "78€".encode()),
        piece("engine", b"123456"),
        whole("engine", b"before"),
    ]
    assert last_lines(newest_first, 3) == [
        Line("engine", "before", 0),
        Line("engine", "[8 bytes cut] €9 end", 0),
        Line("engine", "next", 0),
    ]


def test_a_cut_within_a_character_leaves_none_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_text, "LONGEST_LINE_BYTES", 5)
    assert last_lines([whole("engine", "12€end".encode())], 1) == [Line("engine", "[5 bytes cut] end", 0)]


def test_a_tail_that_is_too_large_for_the_bus_loses_its_oldest_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_text, "LONGEST_TAIL_BYTES", 10)
    newest_first = [whole("engine", b"x" * 6, 3), whole("engine", b"y" * 6, 2), whole("engine", b"z", 1)]
    assert last_lines(newest_first, 3) == [Line("engine", "y" * 6, 2), Line("engine", "x" * 6, 3)]


@given(
    st.lists(st.text(st.characters(codec="utf-8", exclude_categories=["C"]), min_size=1), min_size=1),
    st.data(),
)
def test_however_lines_are_split_they_come_back(lines: list[str], data: st.DataObject) -> None:
    oldest_first: list[Record] = []
    for number, text in enumerate(lines):
        rest = text.encode()
        while len(rest) > 1 and data.draw(st.booleans()):
            at = data.draw(st.integers(1, len(rest) - 1))
            oldest_first.append(piece("engine", rest[:at], number))
            rest = rest[at:]
        oldest_first.append(whole("engine", rest, number))
    wanted = data.draw(st.integers(1, len(lines)))
    expected = [Line("engine", text, number) for number, text in enumerate(lines)][-wanted:]
    assert last_lines(reversed(oldest_first), wanted) == expected
