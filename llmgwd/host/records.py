"""The records of shards on disk: one JSON file each, written whole or not at all, and the exit files."""

import contextlib
import fcntl
import json
import os
import shutil
import stat
import time
from collections.abc import Iterator
from pathlib import Path

_SUFFIX = ".json"
# More than any record that we write: a larger one is none of ours.
_LARGEST = 8 * 1024 * 1024


class StoreTaken(Exception):  # noqa: N818
    """Another daemon works in this directory."""


class RecordStore:
    """`folder` is the state directory; a record's `name` is the name of its scope without `.scope`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = -1

    def open(self) -> None:
        """Makes the directory, 0700, and takes it for this daemon alone. Raises OSError, StoreTaken."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = os.open(self.folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            raise StoreTaken(f"another llmgwd works in {self.folder}") from None

    def write(self, name: str, content: dict[str, object]) -> None:
        """Durable when it returns. Raises OSError, the record of before being intact."""
        path = self.folder / (name + _SUFFIX)
        fresh = path.with_suffix(".new")
        try:
            descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                json.dump(content, file)
                file.flush()
                os.fsync(file.fileno())
            fresh.rename(path)
        except OSError:
            with contextlib.suppress(OSError):
                fresh.unlink(missing_ok=True)
            raise
        self._sync_folder()

    def read_all(self) -> Iterator[tuple[str, object]]:
        """Name and content of each record; what cannot be read is set aside and comes with `None`."""
        for path in sorted(self.folder.glob("*" + _SUFFIX)):
            name = path.name.removesuffix(_SUFFIX)
            try:
                yield name, self._read(path)
            except (OSError, ValueError, RecursionError):
                self.set_aside(name)
                yield name, None

    def set_aside(self, name: str) -> Path:
        """Keeps a record that nobody understands for a person to look at."""
        path = self.folder / (name + _SUFFIX)
        aside = path.with_name(f"{path.name}.corrupt-{int(time.time())}")
        with contextlib.suppress(OSError):
            path.rename(aside)
        return aside

    def remove(self, name: str) -> None:
        (self.folder / (name + _SUFFIX)).unlink(missing_ok=True)
        shutil.rmtree(self._exits(name), ignore_errors=True)

    def status_path(self, name: str, process: str) -> Path:
        """Where the gate of `process` writes the exit status (host/gate.py)."""
        return self._exits(name) / process

    def _exits(self, name: str) -> Path:
        return self.folder / (name + ".exits")

    def _read(self, path: Path) -> object:
        about = path.stat()
        if not stat.S_ISREG(about.st_mode) or about.st_size > _LARGEST:  # a pipe would be waited for
            raise ValueError("no record of ours")
        return json.loads(path.read_text(encoding="utf-8"))

    def _sync_folder(self) -> None:
        descriptor = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
