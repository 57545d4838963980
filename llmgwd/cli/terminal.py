"""What depends on where the output goes: colour, width, and what a terminal may be sent."""

import os
import shutil
import sys
import unicodedata
from typing import Final, TextIO

_COLOURS: Final = {
    "pending": "36",
    "starting": "36",
    "loading": "36",
    "ready": "32",
    "draining": "33",
    "failed": "31",
    "ready, failing": "31",
}  # SGR: cyan, green, yellow, red


def is_terminal(stream: TextIO) -> bool:
    """Whether somebody looks at it who can see a line rewritten."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def width(stream: TextIO) -> int | None:
    """Columns of the terminal; None where the output goes elsewhere and no line is ever cut."""
    return shutil.get_terminal_size().columns if is_terminal(stream) else None


def tint(state: str, words: str) -> str:
    """`words` on standard output in the colour of the state; as they are where no colour is wanted.

    Source: https://no-color.org
    """
    colour = _COLOURS.get(state)
    if colour is None or os.environ.get("NO_COLOR") or not is_terminal(sys.stdout):
        return words
    return f"\x1b[{colour}m{words}\x1b[0m"


def one_line(text: str) -> str:
    """`text` with nothing in it that breaks a line or moves a cursor."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )


def columns(text: str) -> int:
    """How many columns a terminal uses for it."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(character) else 2 if unicodedata.east_asian_width(character) in "WF" else 1
        for character in text
    )


def cut(text: str, most: int) -> str:
    """The beginning of `text` that fits into so many columns, with an ellipsis where something is missing."""
    if columns(text) <= most:
        return text
    kept = text[: max(most - 1, 0)]
    while columns(kept) > most - 1 and kept:
        kept = kept[:-1]
    return kept + "…"
