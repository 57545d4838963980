"""Rows of words as a table, and names with values as a paragraph."""

from collections.abc import Callable, Sequence

from llmgwd.cli.terminal import columns, cut, one_line

_GAP = "  "
_LEAST_LAST_COLUMN = 12
_LEAST_COLUMN = 8


def natural_width(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> int:
    """How many columns (of a terminal) the table takes where nothing is cut."""
    return _total(_sizes([[one_line(cell) for cell in row] for row in (headings, *rows)]))


def table(
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    width: int | None = None,
    tint: Callable[[str, str], str] | None = None,
) -> list[str]:
    """Lines with aligned columns. Where there is a `width` (of a terminal) none is longer: the last column is
    cut, then the widest others, and of those the first, which names the thing, as the last.

    `tint(heading, word)` gives the word as it is to be printed, in a colour.
    """
    cells = [[one_line(cell) for cell in row] for row in (headings, *rows)]
    sizes = _sizes(cells)
    if width is not None:
        _shrink(sizes, width)
    lines = []
    for at, row in enumerate(cells):
        padded = []
        for heading, cell, size in zip(headings, row, sizes, strict=False):  # what has no room is left out
            word = cut(cell, size)
            painted = tint(heading, word) if tint is not None and at else word
            padded.append(painted + " " * (size - columns(word)))
        lines.append(_GAP.join(padded).rstrip())
    return lines


def _sizes(cells: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(columns, column)) for column in zip(*cells, strict=True)]


def _total(sizes: Sequence[int]) -> int:
    return sum(sizes) + len(_GAP) * (len(sizes) - 1)


def _shrink(sizes: list[int], width: int) -> None:
    """Make the columns narrower until they fit, the last one first."""
    del sizes[max((width + len(_GAP)) // (1 + len(_GAP)), 1) :]
    last = len(sizes) - 1
    for may_give, least in (
        ({last}, _LEAST_LAST_COLUMN),
        (set(range(1, len(sizes))), _LEAST_COLUMN),
        (set(range(len(sizes))), 1),
    ):
        while _total(sizes) > width:
            widest = max(may_give, key=lambda at: sizes[at], default=0)
            if widest not in may_give or sizes[widest] <= least:
                break
            sizes[widest] -= 1


def paragraph(fields: Sequence[tuple[str, str]]) -> list[str]:
    """A line for each name and value, values aligned; those without a value are left out."""
    present = [(f"{name}:", one_line(value)) for name, value in fields if value]
    size = max((columns(name) for name, _ in present), default=0)
    return [f"{name:<{size}}  {value}" for name, value in present]
