"""Where the configuration lies, and what is made of the files that are there."""

from pathlib import Path

import pytest

from llmgwd.host.settings import Places
from llmgwd.model.errors import InvalidConfig

ENGINES = ("vllm", "command")


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(tmp_path / "llmgwd.toml", False, "/var/lib/llmgwd", "/var/lib/llmgw")


def put(places: Places, name: str, text: str) -> Path:
    path = places.file if not name else places.file.with_name("llmgwd.toml.d") / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


def refusal(places: Places) -> str:
    with pytest.raises(InvalidConfig) as refused:
        places.read(ENGINES)
    return refused.value.text


# Where


def test_the_system_has_its_places() -> None:
    etc = Path("/etc/llmgwd/llmgwd.toml")
    assert Places.of_system() == Places(etc, False, "/var/lib/llmgwd", "/var/lib/llmgw")


def test_a_user_has_places_at_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/u")
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert Places.of_user() == Places(
        Path("/home/u/.config/llmgwd/llmgwd.toml"), True, "/home/u/.local/state/llmgwd", "/home/u"
    )


@pytest.mark.parametrize(
    ("value", "config", "state"),
    [
        ("/srv/x", "/srv/x", "/srv/x"),
        ("", "/home/u/.config", "/home/u/.local/state"),
        ("relative", "/home/u/.config", "/home/u/.local/state"),
    ],
)
def test_a_user_may_have_them_elsewhere(
    monkeypatch: pytest.MonkeyPatch, value: str, config: str, state: str
) -> None:
    monkeypatch.setenv("HOME", "/home/u")
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, value)
    assert Places.of_user() == Places(Path(config, "llmgwd/llmgwd.toml"), True, f"{state}/llmgwd", "/home/u")


# What


def test_no_file_says_nothing(places: Places) -> None:
    assert (places.read(ENGINES).agent.state_dir, places.read(ENGINES).agent.slice) == (
        "/var/lib/llmgwd",
        "llmgw.slice",
    )


def test_the_defaults_are_those_of_the_place(tmp_path: Path) -> None:
    config = Places(tmp_path / "none", True, "/home/u/state", "/home/u").read(ENGINES)
    engine = config.engine("vllm")
    assert (
        config.agent.state_dir,
        config.agent.journal_namespace,
        engine.working_directory,
        engine.user,
    ) == (
        "/home/u/state",
        "",
        "/home/u",
        "",
    )


def test_files_of_the_folder_come_after_the_file_in_the_order_of_their_names(places: Places) -> None:
    put(places, "20-late.toml", "[agent]\nlog_lines = 20\n")
    put(places, "10-early.toml", "[agent]\nlog_lines = 10\nmax_shards = 10\n")
    put(places, "", "[agent]\nlog_lines = 1\nmax_shards = 1\nstop_timeout_s = 1\n")
    agent = places.read(ENGINES).agent
    assert (agent.log_lines, agent.max_shards, agent.stop_timeout_s) == (20, 10, 1.0)


def test_only_files_with_the_right_ending_are_read(places: Places) -> None:
    for name in ("10-old.toml.bak", "README", "10-x.toml~", "20-x.conf"):
        put(places, name, "not TOML")
    put(places, "30-x.toml", "[agent]\nlog_lines = 30\n")
    assert places.read(ENGINES).agent.log_lines == 30


def test_a_link_to_nowhere_says_nothing(places: Places) -> None:
    put(places, "10-x.toml", "")
    places.file.symlink_to("/nowhere")
    (places.file.with_name("llmgwd.toml.d") / "20-x.toml").symlink_to("/nowhere")
    assert places.read(ENGINES).agent.log_lines == 512


def test_a_file_is_read_anew_each_time(places: Places) -> None:
    found = []
    for lines in (5, 6):
        put(places, "", f"[agent]\nlog_lines = {lines}\n")
        found.append(places.read(ENGINES).agent.log_lines)
    assert found == [5, 6]


def test_a_file_that_is_wrong_is_named(places: Places) -> None:
    put(places, "", "[agent]\nlog_lines = 1\n")
    path = put(places, "10-x.toml", "[agent]\nlog_lines = 'many'\n")
    assert refusal(places).startswith(f"{path}: agent.log_lines: got ")


def test_a_file_that_can_not_be_read_is_named_with_why(places: Places) -> None:
    path = put(places, "10-x.toml", "")
    path.write_bytes(b"# caf\xe9\n")
    assert refusal(places) == f"{path}: not UTF-8"
    path.unlink()
    path.mkdir()
    assert refusal(places) == f"{path}: Is a directory"
    places.file.mkdir()
    assert refusal(places) == f"{places.file}: Is a directory"
