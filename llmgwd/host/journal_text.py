"""Records of the journal as lines for people: pieces joined, control characters harmless, size bounded."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

# A tail has to fit into one message: dbus-daemon takes 32 MiB, and a byte becomes up to four (`\x07`).
LONGEST_TAIL_BYTES = 6 * 1024 * 1024
LONGEST_LINE_BYTES = 256 * 1024

# How many records before the oldest wanted line are searched for the beginning of lines that journald split.
LOOK_BACK_RECORDS = 64

_ESCAPE_SEQUENCES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # colours, cursor (ECMA-48, control sequences)
    r"|(?:\x1b\]|\x9d)[^\x07\x1b\x9c\x9d]*(?:\x07|\x1b\\|\x9c)"  # titles, links (ECMA-48, control strings)
    r"|\x1b[ -/]*[0-Z\\^-~]"  # character sets and the rest (ECMA-35)
)
_CONTROLS = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f]")
_CONTINUATION_BYTES = bytes(range(0x80, 0xC0))


class Record(NamedTuple):
    """One entry of the journal; `broken`: journald split the line after it (_LINE_BREAK=line-max)."""

    process: str
    message: bytes
    broken: bool
    realtime_us: int


@dataclass(frozen=True, slots=True)
class Line:
    """One line of output; `realtime_us`: when journald received its end, in µs since 1970."""

    process: str
    text: str
    realtime_us: int


@dataclass(slots=True)
class _Assembly:
    """A line that is put together from its end."""

    process: str
    realtime_us: int
    pieces: list[bytes] = field(default_factory=list)
    kept_bytes: int = 0
    total_bytes: int = 0

    def prepend(self, piece: bytes) -> None:
        kept = piece[max(len(piece) - (LONGEST_LINE_BYTES - self.kept_bytes), 0) :]
        self.pieces.append(kept)
        self.kept_bytes += len(kept)
        self.total_bytes += len(piece)

    def line(self) -> Line:
        message = b"".join(reversed(self.pieces))
        if self.kept_bytes == self.total_bytes:
            return Line(self.process, shown(message), self.realtime_us)
        message = message.lstrip(_CONTINUATION_BYTES)
        text = f"[{self.total_bytes - len(message)} bytes cut] {shown(message)}"
        return Line(self.process, text, self.realtime_us)


def last_lines(newest_first: Iterable[Record], wanted: int) -> list[Line]:
    """Put together the last `wanted` lines, oldest first; fewer where they would exceed LONGEST_TAIL_BYTES.

    Reads no more records than it takes to know where these lines begin.
    """
    lines: list[_Assembly] = []
    beginning_unknown: dict[str, _Assembly] = {}
    total_bytes = beyond = 0
    for record in newest_first:
        process, message, broken, realtime_us = record
        later = beginning_unknown.get(process)
        if broken and later is not None:
            later.prepend(message)
        else:
            beginning_unknown.pop(process, None)
            if len(lines) < wanted and total_bytes < LONGEST_TAIL_BYTES:
                line = beginning_unknown[process] = _Assembly(process, realtime_us)
                line.prepend(message)
                lines.append(line)
            else:
                beyond += 1
                if not beginning_unknown or beyond == LOOK_BACK_RECORDS:
                    break
        total_bytes += len(message)
    return [line.line() for line in reversed(lines)]


def shown(message: bytes) -> str:
    """One line as it may be shown: valid UTF-8, no terminal sequences, controls but tabs as `\\x07`.

    Of a line with carriage returns (a progress bar) what stands after the last one that something follows.
    """
    text = message.decode("utf-8", "replace")
    if text.isprintable():
        return text
    text = _ESCAPE_SEQUENCES.sub("", text)
    if "\r" in text:
        text = next((state for state in reversed(text.split("\r")) if state.strip()), "")
    return _CONTROLS.sub(lambda control: f"\\x{ord(control[0]):02x}", text)
