"""How the story looks: numbered sentences, below each the command and what it printed."""

import os
import shlex
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from typing import TextIO

_BOLD, _DIM, _PLAIN = "\x1b[1m", "\x1b[2m", "\x1b[0m"
_WIDEST = 110
_INDENT = " " * 4


class Teller:
    """In colour on a terminal, else plain; no line is wider than the terminal."""

    def __init__(self, output: TextIO | None = None) -> None:
        self._output = sys.stdout if output is None else output
        on_terminal = self._output.isatty() and os.environ.get("TERM") != "dumb"
        self._coloured = on_terminal and not os.environ.get("NO_COLOR")
        self._width = min(shutil.get_terminal_size().columns, _WIDEST) if on_terminal else _WIDEST
        self._count = 0

    def remark(self, text: str) -> None:
        for paragraph in text.split("\n"):
            self._print(self._wrapped(paragraph), _PLAIN)

    def sentence(self, text: str) -> None:
        """What is shown next."""
        self._count += 1
        self._print("\n" + self._wrapped(f"{self._count:2}. {text}", _INDENT), _BOLD)

    def command(self, words: Sequence[str]) -> None:
        """What the reader could type, on as many lines as it takes."""
        line = f"{_INDENT}$"
        for word in map(shlex.quote, words):
            if len(f"{line} {word} \\") > self._width:
                self._print(f"{line} \\", _PLAIN)
                line = f"{_INDENT} "
            line += f" {word}"
        self._print(line, _PLAIN)

    def lines(self, lines: Iterable[str]) -> None:
        """What it printed, or what was found."""
        for line in lines:
            self._print(f"{_INDENT}  {line}".rstrip(), _DIM)

    def _wrapped(self, text: str, indent: str = "") -> str:
        return textwrap.fill(text, self._width, subsequent_indent=indent, break_on_hyphens=False)

    def _print(self, text: str, style: str) -> None:
        if style is _DIM and len(text) > self._width:
            text = text[: self._width - 1] + "…"
        if self._coloured and style is not _PLAIN:
            text = f"{style}{text}{_PLAIN}"
        print(text, file=self._output, flush=True)
