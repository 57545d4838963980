"""The command line of llmgwd."""

import sys
from pathlib import Path

import pytest

from llmgwd.daemon import main


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that `llmgwd --user` reads first; not there yet."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    file = tmp_path / "llmgwd/llmgwd.toml"
    file.parent.mkdir()
    return file


def status(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> object:
    monkeypatch.setattr(sys, "argv", ["llmgwd", "--user", *arguments])
    with pytest.raises(SystemExit) as end:
        main()
    return end.value.code


@pytest.mark.parametrize("text", [None, "", "[agent]\nlog_lines = 100\n"])
def test_a_check_says_that_a_configuration_is_good(
    config: Path, text: str | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if text is not None:
        config.write_text(text)
    assert status(monkeypatch, "--check") == 0
    assert capsys.readouterr() == ("configuration is good\n", "")


def test_a_check_names_what_is_wrong_with_a_bad_one(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = config.with_name("llmgwd.toml.d")
    folder.mkdir()
    bad = folder / "a.toml"
    bad.write_text("[agent]\nlog_linez = 3\n")
    assert status(monkeypatch, "--check") == 78
    complaint = f"InvalidConfig: {bad}: agent.log_linez: unknown key, did you mean log_lines?\n"
    assert capsys.readouterr() == ("", complaint)
