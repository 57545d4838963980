"""Records of shards on disk: whole or not at all, whatever happens to them."""

import json
import os
import resource
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from llmgwd.host.records import RecordStore, StoreTaken

NAME = "llmgw-shard-org-model\\x2d7b"
RECORD = {"id": "org/model-7b", "spec": {"args": ["é€😀", "\ud800", "\0", "\n"]}, "pids": {}, "until": 1.5}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RecordStore]:
    store = RecordStore(tmp_path / "lib/llmgwd")
    store.open()
    yield store
    os.close(store._lock)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name != ".lock")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def descriptors() -> set[str]:
    return set(os.listdir("/proc/self/fd"))


def read(store: RecordStore) -> dict[str, object]:
    return dict(store.read_all())


@contextmanager
def full_disk(room: int) -> Iterator[None]:
    """No file takes more than `room` bytes: a write fails half way."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


# Written


def test_a_record_is_read_as_it_was_written(store: RecordStore) -> None:
    store.write(NAME, RECORD)
    store.write("llmgw-shard-b.c", {"id": "b.c"})
    assert read(store) == {NAME: RECORD, "llmgw-shard-b.c": {"id": "b.c"}}
    assert names(store.folder) == ["llmgw-shard-b.c.json", f"{NAME}.json"]


def test_a_record_is_nobody_elses(store: RecordStore) -> None:
    old = os.umask(0)
    store.write(NAME, RECORD)
    os.umask(old)
    found = {path: mode(store.folder / path) for path in (".", ".lock", f"{NAME}.json")}
    assert found == {".": 0o700, ".lock": 0o600, f"{NAME}.json": 0o600}


def test_the_latest_record_takes_the_place_of_the_one_before(store: RecordStore) -> None:
    store.write(NAME, {"id": "a", "long": "x" * 10_000})
    store.write(NAME, {"id": "a"})
    assert (read(store), names(store.folder)) == ({NAME: {"id": "a"}}, [f"{NAME}.json"])


def test_a_record_is_on_the_disk_before_it_counts(
    store: RecordStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = []

    def note(descriptor: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        synced.append((path.name, names(store.folder)))

    monkeypatch.setattr(os, "fsync", note)
    store.write(NAME, RECORD)
    assert synced == [
        (f"{NAME}.new", [f"{NAME}.new"]),
        ("llmgwd", [f"{NAME}.json"]),
    ]


def test_a_write_that_fails_half_way_keeps_the_record_of_before(store: RecordStore) -> None:
    store.write(NAME, RECORD)
    before = descriptors()
    with full_disk(64), pytest.raises(OSError, match="File too large"):
        store.write(NAME, {"id": "x" * 100_000})
    assert (read(store), names(store.folder), descriptors()) == ({NAME: RECORD}, [f"{NAME}.json"], before)


def test_a_write_that_is_not_on_the_disk_keeps_the_record_of_before(
    store: RecordStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    store.write(NAME, RECORD)
    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OSError, match="No space"):
        store.write(NAME, {"id": "other"})
    assert (read(store), names(store.folder)) == ({NAME: RECORD}, [f"{NAME}.json"])


def test_a_write_that_can_not_begin_keeps_the_record_of_before(store: RecordStore) -> None:
    store.write(NAME, RECORD)
    (store.folder / f"{NAME}.new").mkdir()
    with pytest.raises(IsADirectoryError):
        store.write(NAME, {"id": "other"})
    assert read(store) == {NAME: RECORD}


def test_what_a_crash_left_behind_is_no_record(store: RecordStore) -> None:
    (store.folder / f"{NAME}.new").write_text('{"id": "ha')
    assert read(store) == {}
    store.write(NAME, RECORD)
    assert (read(store), names(store.folder)) == ({NAME: RECORD}, [f"{NAME}.json"])


# Taken


def test_a_second_daemon_is_refused_until_the_first_has_gone(store: RecordStore) -> None:
    other = RecordStore(store.folder)
    before = descriptors()
    with pytest.raises(StoreTaken, match=f"^another llmgwd works in {store.folder}$"):
        other.open()
    assert descriptors() == before
    os.close(store._lock)
    other.open()
    store._lock = other._lock


def test_a_store_that_can_not_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError):
        RecordStore(tmp_path / "file").open()


def test_a_program_that_is_run_does_not_hold_the_store(store: RecordStore) -> None:
    assert not os.get_inheritable(store._lock)


# Corrupt


def pipe(path: Path) -> None:
    os.mkfifo(path)


def sparse(path: Path) -> None:
    path.touch()
    os.truncate(path, 8 * 1024 * 1024 + 1)


def large(path: Path) -> None:
    path.write_bytes(b"[]" + b" " * 8 * 1024 * 1024)


CORRUPT: dict[str, Callable[[Path], object]] = {
    "nothing": Path.touch,
    "half": lambda path: path.write_text("{"),
    "torn": lambda path: path.write_text(json.dumps(RECORD)[:-3]),
    "two": lambda path: path.write_text("{}{}"),
    "zeros": lambda path: path.write_bytes(bytes(4096)),
    "random": lambda path: path.write_bytes(bytes(range(256)) * 16),
    "not UTF-8": lambda path: path.write_bytes(b'{"id": "\xff"}'),
    "mark": lambda path: path.write_bytes(b"\xef\xbb\xbf{}"),
    "deep": lambda path: path.write_text("[" * 100_000 + "]" * 100_000),
    "digits": lambda path: path.write_text("1" * 100_000),
    "folder": Path.mkdir,
    "dangling": lambda path: path.symlink_to("/nowhere"),
    "circle": lambda path: path.symlink_to(path.name),
    "device": lambda path: path.symlink_to("/dev/zero"),
    "pipe": pipe,
    "sparse": sparse,
    "large": large,
}


@pytest.mark.parametrize("kind", CORRUPT)
def test_what_can_not_be_read_is_set_aside_and_the_rest_is_read(store: RecordStore, kind: str) -> None:
    for name in ("a", "z"):
        store.write(name, {"id": name})
    CORRUPT[kind](store.folder / "corrupt.json")
    made = (store.folder / "corrupt.json").lstat()
    assert read(store) == {"a": {"id": "a"}, "corrupt": None, "z": {"id": "z"}}
    (aside,) = (path for path in store.folder.iterdir() if ".corrupt-" in path.name)
    assert aside.name.startswith("corrupt.json.corrupt-")
    assert (aside.lstat().st_ino, aside.lstat().st_mode) == (made.st_ino, made.st_mode)
    assert read(store) == {"a": {"id": "a"}, "z": {"id": "z"}}


@pytest.mark.parametrize("content", ["[]", "null", "7", '"text"', "NaN", "{}"])
def test_what_is_json_is_left_to_whoever_knows_what_a_record_is(store: RecordStore, content: str) -> None:
    path = store.folder / "odd.json"
    path.write_text(content)
    assert [json.dumps(found) for found in read(store).values()] == [content]
    aside = store.set_aside("odd")
    assert (read(store), path.exists(), aside.read_text()) == ({}, False, content)


def test_to_set_aside_what_has_gone_is_no_error(store: RecordStore) -> None:
    store.set_aside("none")
    assert names(store.folder) == []


def test_a_record_through_a_link_is_one(store: RecordStore, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text(json.dumps(RECORD))
    (store.folder / "linked.json").symlink_to(tmp_path / "elsewhere")
    assert read(store) == {"linked": RECORD}


# Removed


def test_a_record_goes_with_its_exit_files(store: RecordStore) -> None:
    for name in (NAME, "other"):
        store.write(name, RECORD)
        store.status_path(name, "engine").parent.mkdir()
        store.status_path(name, "engine").touch()
        store.status_path(name, "ray-head").touch()
    store.remove(NAME)
    assert names(store.folder) == ["other.exits", "other.json"]
    store.remove(NAME)
    assert (read(store), names(store.folder / "other.exits")) == ({"other": RECORD}, ["engine", "ray-head"])


def test_each_process_has_an_exit_file_of_its_own(store: RecordStore) -> None:
    found = [store.status_path(NAME, process).relative_to(store.folder) for process in ("engine", "ray-head")]
    assert [str(path) for path in found] == [f"{NAME}.exits/engine", f"{NAME}.exits/ray-head"]
