"""What the administrator's configuration lets callers ask for."""

from pathlib import Path

import pytest

from llmgwd.config import AgentConfig
from llmgwd.engines.plan import Plan, Process
from llmgwd.host.allowed import check_allowed
from llmgwd.model.errors import InvalidSpec
from tests.host.test_launcher import spec


def plan(*executables: str) -> Plan:
    processes = [Process(f"p{at}", (path,), {}, "/", ()) for at, path in enumerate(executables)]
    return Plan(tuple(processes), (), None, ())


def check(values: dict[str, object], *executables: str, **agent: tuple[str, ...]) -> str:
    """Why the spec is refused; empty where it is not."""
    configuration = AgentConfig(**agent)  # type: ignore[arg-type]
    try:
        check_allowed(spec(**({"user": "llmgw"} | values)), plan(*executables), configuration, "llmgw")
    except InvalidSpec as refusal:
        return refusal.text
    return ""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With two folders, and in the allowed one links that lead out of it and stay in it."""
    for name in ("allowed/inner", "allowed-not", "other"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("allowed/file", "allowed-not/file", "other/file"):
        (tmp_path / name).touch()
    (tmp_path / "allowed/out").symlink_to(tmp_path / "other/file")
    (tmp_path / "allowed/in").symlink_to("file")
    (tmp_path / "link").symlink_to("allowed")
    return tmp_path


def test_where_nothing_is_listed_all_programs_and_directories_are_allowed() -> None:
    assert check({"working_directory": "/srv"}, "/bin/sh", "/usr/bin/env") == ""


def test_the_configured_user_and_listed_ones_are_allowed() -> None:
    listed = ("ai", "llmgw")
    assert [check({"user": user}, allowed_users=listed) for user in ("llmgw", "ai", "root")] == [
        "",
        "",
        "user: got root, takes llmgw, ai (allowed_users of the configuration)",
    ]


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("allowed/file", True),
        ("allowed/none", True),
        ("allowed/in", True),
        ("allowed/inner/../file", True),
        ("link/file", True),
        ("allowed/out", False),
        ("allowed/../other/file", False),
        ("allowed-not/file", False),
        ("other/file", False),
    ],
)
def test_files_have_to_be_inside_after_links_are_followed(folder: Path, path: str, allowed: bool) -> None:
    where = (str(folder / "allowed"), "/etc/none")
    refused = check({"environment_files": [str(folder / path)]}, environment_file_directories=where)
    assert refused == (
        "" if allowed else f"environment_files: {folder / path} is not inside {folder}/allowed, /etc/none"
    )


def test_without_a_directory_for_them_no_file_is_allowed() -> None:
    assert check({"environment_files": ["/etc/env"]}, environment_file_directories=()) == (
        "environment_files: /etc/env is not inside any allowed directory"
    )


def test_a_working_directory_has_to_be_inside(folder: Path) -> None:
    where = (str(folder / "link"),)
    for path, allowed in (
        ("allowed", True),
        ("allowed/inner", True),
        ("other", False),
        ("allowed/..", False),
    ):
        refused = check({"working_directory": str(folder / path)}, allowed_directories=where)
        assert refused == (
            "" if allowed else f"working_directory: {folder / path} is not inside {folder}/link"
        )


def test_every_program_has_to_be_listed_after_links_are_followed(folder: Path) -> None:
    listed = (str(folder / "link/file"), "/none")
    assert (
        check({}, str(folder / "allowed/in"), str(folder / "allowed/file"), allowed_executables=listed) == ""
    )
    assert check({}, str(folder / "allowed/in"), str(folder / "allowed/out"), allowed_executables=listed) == (
        f"executable: {folder}/other/file of process p1 is not one of allowed_executables"
    )
