"""What the demonstration says when its story is not so."""

import subprocess
from collections.abc import Sequence
from contextlib import AbstractContextManager

import pytest

from tests.demo.__main__ import happens
from tests.demo.place import Result
from tests.demo.teller import Teller


class Elsewhere:
    """A place where every command prints the same."""

    opening = "It is told elsewhere."
    user_flag: tuple[str, ...] = ()
    engines_journal = "--namespace=llmgw"
    daemon_unit = "llmgwd.service"
    engine_user = "llmgw"
    model = "/model"
    port = 1
    tree = "/tree"

    def __init__(self, printed: str) -> None:
        self.printed = printed
        self.shells = 0

    def run(self, command: Sequence[str], *, check: bool = True) -> Result:
        return subprocess.CompletedProcess(list(command), 0, self.printed, "")

    def popen(self, command: Sequence[str]) -> AbstractContextManager[subprocess.Popen[str]]:
        raise AssertionError(f"{command} is run")

    def journal(self) -> str:
        return "llmgwd[1]: what it logged"

    def shell(self) -> None:
        self.shells += 1


def test_a_story_that_is_not_so_ends_there_and_says_what_was_found(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KEEP", raising=False)
    place = Elsewhere('[{"id": "other"}]')
    status = happens(place, Teller())
    said = capsys.readouterr()
    complaint = "\ndemo: llmgwd has shards already\n\nThe journal:\nllmgwd[1]: what it logged\n"
    assert (status, said.err, place.shells) == (1, complaint, 0)
    assert said.out == '\n 1. It is told elsewhere.\n    $ llmgwctl status\n      [{"id": "other"}]\n'


def test_the_shell_is_there_also_when_the_story_was_not_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEEP", "1")
    place = Elsewhere("[]")
    assert (happens(place, Teller()), place.shells) == (1, 1)
