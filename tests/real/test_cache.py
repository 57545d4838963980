"""What is kept for this tree: made once, wholly or not at all, and readable for everybody."""

import os
import threading
from pathlib import Path

import pytest

from tests.real.cache import cached


def must_not_be_made(directory: Path) -> None:
    raise AssertionError(f"{directory} is made")


def test_it_is_made_once(tmp_path: Path) -> None:
    made = cached(tmp_path / "it", lambda directory: (directory / "file").touch())
    assert (made, cached(tmp_path / "it", must_not_be_made)) == (tmp_path / "it", tmp_path / "it")
    assert os.listdir(made) == ["file"]


def test_what_cannot_be_made_wholly_is_not_there(tmp_path: Path) -> None:
    def half(directory: Path) -> None:
        (directory / "half").touch()
        raise OSError("no space")

    with pytest.raises(OSError, match=r"^no space$"):
        cached(tmp_path / "it", half)
    assert os.listdir(tmp_path) == ["lock"]


def test_two_at_once_make_it_once(tmp_path: Path) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def slowly(directory: Path) -> None:
        begun.set()
        go_on.wait()

    first = threading.Thread(target=cached, args=(tmp_path / "it", slowly))
    second = threading.Thread(target=cached, args=(tmp_path / "it", must_not_be_made))
    first.start()
    begun.wait()
    second.start()
    go_on.set()
    first.join()
    second.join()
    assert sorted(os.listdir(tmp_path)) == ["it", "lock"]


def test_every_user_can_read_it_and_a_link_out_of_it_is_left_alone(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.touch(mode=0o600)

    def make(directory: Path) -> None:
        (directory / "folder").mkdir(mode=0o700)
        (directory / "folder/file").touch(mode=0o600)
        (directory / "link").symlink_to(outside)

    made = cached(tmp_path / "it", make)
    paths = (made, made / "folder", made / "folder/file", outside)
    assert [path.stat().st_mode & 0o777 for path in paths] == [0o755, 0o755, 0o644, 0o600]
