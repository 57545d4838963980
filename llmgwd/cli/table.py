"""Rows of words as a table, and names with values as a paragraph."""

from collections.abc import Callable, Sequence

from llmgwd.cli.terminal import columns, cut, one_line

_GAP = "  "
_LEAST_LAST_COLUMN = 12


def table(
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    width: int | None = None,
    tint: Callable[[str, str], str] | None = None,
) -> list[str]:
    """Lines with aligned columns. Where there is a `width` (in columns), the last column is cut to it.

    `tint(heading, word)` gives the word as it is to be printed, in a colour.
    """
    cells = [[one_line(cell) for cell in row] for row in (headings, *rows)]
    sizes = [max(map(columns, column)) for column in zip(*cells, strict=True)]
    if width is not None:
        before_last = sum(sizes[:-1]) + len(_GAP) * (len(sizes) - 1)
        sizes[-1] = min(sizes[-1], max(width - before_last, _LEAST_LAST_COLUMN))
    lines = []
    for at, row in enumerate(cells):
        padded = []
        for heading, cell, size in zip(headings, row, sizes, strict=True):
            word = cut(cell, size)
            painted = tint(heading, word) if tint is not None and at else word
            padded.append(painted + " " * (size - columns(word)))
        lines.append(_GAP.join(padded).rstrip())
    return lines


def paragraph(fields: Sequence[tuple[str, str]]) -> list[str]:
    """A line for each name and value, values aligned; those without a value are left out."""
    present = [(f"{name}:", one_line(value)) for name, value in fields if value]
    size = max((columns(name) for name, _ in present), default=0)
    return [f"{name:<{size}}  {value}" for name, value in present]
