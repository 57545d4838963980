"""All shards as a table that fits where it is shown."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from llmgwd.cli.describe import state_word
from llmgwd.cli.table import natural_width, table
from llmgwd.cli.terminal import columns, one_line, tint

_HEADINGS: Final = ("ID", "STATE", "ENGINE", "MODEL", "RANK", "ENDPOINT", "REASON")
_MODEL: Final = _HEADINGS.index("MODEL")
_RANK: Final = _HEADINGS.index("RANK")
_ALONE: Final = "0/1"


def shard_table(shards: Sequence[Mapping[str, Any]], *, width: int | None) -> list[str]:
    """Lines, of at most `width` columns: what tells least gives way first, the reason's end last of all."""
    headings, rows = list(_HEADINGS), [_row(shard) for shard in shards]
    if width is not None:
        over = natural_width(headings, rows) - width
        if over > 0 and rows:
            most = max(columns(row[_MODEL]) for row in rows) - over
            for row in rows:
                row[_MODEL] = without_directories(row[_MODEL], most)
        if natural_width(headings, rows) > width and all(row[_RANK] == _ALONE for row in rows):
            for cells in (headings, *rows):
                del cells[_RANK]
    return table(
        headings,
        rows,
        width=width,
        tint=lambda heading, word: tint(word, word) if heading == "STATE" else word,
    )


def without_directories(path: str, most: int) -> str:
    """As many of the last parts of a path as fit into so many columns, and the very last anyhow."""
    parts = path.split("/")
    shorter = [path, *("…/" + "/".join(parts[at:]) for at in range(1, len(parts)) if parts[at:] != [""])]
    fitting = (one for one in shorter if columns(one) <= most)
    return next(fitting, min(shorter, key=columns))


def _row(shard: Mapping[str, Any]) -> list[str]:
    rank = f"{shard['Rank']}/{shard['Nodes']}"
    cells = (
        shard["Id"], state_word(shard), shard["Engine"], shard["Model"], rank, shard["Endpoint"],
        shard["Reason"],
    )  # fmt: skip
    return [one_line(cell) for cell in cells]
