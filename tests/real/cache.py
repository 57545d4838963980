"""What was got for this tree, each in a folder of its own below .cache: all of it, or nothing."""

import fcntl
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

CACHE: Final = Path(__file__).resolve().parents[2] / ".cache"


def cached(directory: Path, make: Callable[[Path], None]) -> Path:
    """`directory`, which `make` has filled if it was not there; one process at a time does so.

    Everybody can read what is in it: engines run as a user of their own.
    """
    if directory.exists():
        return directory
    with _lock(directory.parent):
        if directory.exists():
            return directory  # another process was faster
        with tempfile.TemporaryDirectory(prefix=f"{directory.name}-", dir=directory.parent) as unfinished:
            made = Path(unfinished, "made")
            made.mkdir()
            make(made)
            for path in (made, *made.rglob("*")):
                if not path.is_symlink():
                    path.chmod(path.stat().st_mode | (0o555 if path.is_dir() else 0o444))
            made.rename(directory)
    return directory


@contextmanager
def _lock(cache: Path) -> Iterator[None]:
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
