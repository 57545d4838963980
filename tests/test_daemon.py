"""The command line of llmgwd, and the tasks that run along."""

import asyncio
import sys
from pathlib import Path

import pytest

from llmgwd.daemon import Daemon, main
from llmgwd.host.settings import Places


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that `llmgwd --user` reads first; not there yet."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    file = tmp_path / "llmgwd/llmgwd.toml"
    file.parent.mkdir()
    return file


@pytest.fixture
def daemon(config: Path, monkeypatch: pytest.MonkeyPatch) -> Daemon:
    """One that does not run, of a user without any file of configuration."""
    monkeypatch.setattr(
        "llmgwd.daemon.Notifier", lambda: None
    )  # sdnotify loses a socket where nobody listens
    return Daemon(Places.of_user())


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


async def test_a_task_that_ends_by_an_error_says_so_at_once_and_is_not_kept(
    daemon: Daemon, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail() -> None:
        raise ValueError("no")

    daemon._run_along(fail())
    (task,) = daemon._background
    await asyncio.wait([task])
    await asyncio.sleep(0)
    (line,) = caplog.records
    assert (line.levelname, line.getMessage()) == (
        "ERROR",
        "a fault of llmgwd, it goes on without this task",
    )
    assert line.exc_info is not None
    assert (str(line.exc_info[1]), daemon._background) == ("no", set())


async def test_a_task_that_ends_or_is_cancelled_is_no_fault(
    daemon: Daemon, caplog: pytest.LogCaptureFixture
) -> None:
    async def end() -> None:
        """It has nothing to do."""

    async def stay() -> None:
        await asyncio.Event().wait()

    daemon._run_along(end())
    daemon._run_along(stay())
    tasks = list(daemon._background)
    await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    await asyncio.sleep(0)
    assert ([task.cancelled() for task in tasks].count(True), daemon._background, caplog.records) == (
        1,
        set(),
        [],
    )
