"""Reading small files of /sys and /proc, any of which may be missing, empty or refuse to be read."""

import re
from pathlib import Path

DIGITS = re.compile(r"(\d+)")


def read(file: Path) -> str:
    """Without blanks around it; empty where it cannot be read, as where a driver answers EINVAL."""
    try:
        return file.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def entries(folder: Path) -> list[Path]:
    """What is in it, mlx5_2 before mlx5_10; nothing where it is not there."""
    try:
        return sorted(folder.iterdir(), key=_numerically)
    except OSError:
        return []


def _numerically(path: Path) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in DIGITS.split(path.name)]
