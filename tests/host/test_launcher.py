"""From a planned process to one at its gate: user, environment, output."""

import os
import pwd
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from llmgwd.config import AgentConfig, Config
from llmgwd.engines.plan import Plan, Process
from llmgwd.host import gate, journal
from llmgwd.host.executables import PATH
from llmgwd.host.launcher import Launcher, read_environment_file
from llmgwd.host.records import RecordStore
from llmgwd.model.errors import EngineUnavailable
from llmgwd.model.spec import Defaults, ShardSpec, parse_spec

NOTHING: Mapping[str, str] = {}
ENGINE = Process("engine", ("/usr/bin/env", "-0"), NOTHING, "/", ())


def spec(**values: object) -> ShardSpec:
    """Of `command`, as the daemon itself where `values` name no user."""
    defaults = Defaults(
        port=0,
        health_path="",
        executable="",
        user="",
        group="",
        working_directory="/",
        stop_timeout_s=60.0,
        rendezvous_timeout_s=300.0,
        takes_model=False,
        takes_args=False,
    )
    return parse_spec("a", {"engine": "command", "command": ["/bin/true"], **values}, defaults)


@dataclass
class Node:
    """A launcher, and a journald that takes down what engines print."""

    folder: Path
    listener: socket.socket
    config: Config = field(default_factory=Config)

    @property
    def launcher(self) -> Launcher:
        return Launcher(self.config, RecordStore(self.folder / "state"))

    def configure(self, **agent: object) -> None:
        self.config = Config(agent=AgentConfig(**agent))  # type: ignore[arg-type]

    async def printed(self, spec: ShardSpec, process: Process = ENGINE) -> tuple[str, bytes]:
        """The header of its stream, and what the process printed."""
        made = self.launcher.launch("llmgw-shard-a", "llmgw-shard-a.scope", "a", spec, process)
        made.open()
        connection, _ = self.listener.accept()
        with connection, connection.makefile("rb") as stream:
            everything = stream.read()
        await made.process.ended
        made.release()
        *header, text = everything.split(b"\n", 7)
        return b"|".join(header).decode(), text

    async def environment(self, spec: ShardSpec, planned: Mapping[str, str] = NOTHING) -> dict[str, str]:
        """What the engine gets."""
        _, text = await self.printed(spec, replace(ENGINE, environment=planned))
        return dict(item.split("=", 1) for item in text.decode().split("\0") if item)

    def file(self, name: str, text: str) -> str:
        (self.folder / name).write_text(text)
        return str(self.folder / name)


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Node]:
    monkeypatch.setattr(journal, "RUNTIME_DIRECTORY", str(tmp_path))
    for name in ("HOME", "USER", "LOGNAME", "SHELL", "XDG_RUNTIME_DIR"):
        monkeypatch.setenv(name, f"/daemon/{name}")
    (tmp_path / "journal.llmgw").mkdir()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(tmp_path / "journal.llmgw/stdout"))
        listener.listen()
        yield Node(tmp_path, listener)


DAEMONS_OWN = {name: f"/daemon/{name}" for name in ("HOME", "USER", "LOGNAME", "SHELL", "XDG_RUNTIME_DIR")}


# The environment


async def test_an_engine_starts_from_a_clean_environment(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "NOTIFY_SOCKET", "WATCHDOG_USEC", "LISTEN_FDS", "INVOCATION_ID", "JOURNAL_STREAM",
        "CREDENTIALS_DIRECTORY", "PYTHONPATH", "VIRTUAL_ENV", "HF_TOKEN", "http_proxy", "LANGUAGE",
    ):  # fmt: skip
        monkeypatch.setenv(name, "/leaked")
    monkeypatch.setenv("PATH", "/leaked:/usr/bin")
    assert await node.environment(spec()) == {"PATH": PATH, "LANG": "C.UTF-8"} | DAEMONS_OWN


async def test_a_daemon_without_a_home_gives_none(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in DAEMONS_OWN:
        monkeypatch.delenv(name)
    assert await node.environment(spec()) == {"PATH": PATH, "LANG": "C.UTF-8"}


async def test_a_user_has_its_own_home_and_nothing_of_the_daemons(node: Node) -> None:
    try:
        me = pwd.getpwuid(os.geteuid())
    except KeyError:
        pytest.skip("whoever runs the tests has no name on this host")
    assert await node.environment(spec(user=me.pw_name)) == {
        "PATH": PATH,
        "LANG": "C.UTF-8",
        "HOME": me.pw_dir,
        "USER": me.pw_name,
        "LOGNAME": me.pw_name,
        "SHELL": me.pw_shell,
    }


async def test_only_what_is_listed_passes_through(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.configure(environment_passthrough=("HTTPS_PROXY", "LANG", "ABSENT"))
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    monkeypatch.setenv("LANG", "de_DE.UTF-8")
    monkeypatch.setenv("HTTP_PROXY", "http://leaked")
    assert await node.environment(spec()) == (
        {"PATH": PATH, "LANG": "de_DE.UTF-8", "HTTPS_PROXY": "http://proxy:3128"} | DAEMONS_OWN
    )


async def test_the_spec_wins_over_files_the_later_file_over_the_earlier_and_all_over_the_plan(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.configure(environment_passthrough=tuple("ABCDE"))
    for name in "ABCDE":
        monkeypatch.setenv(name, "daemon")
    first = node.file("first", "C=first\nD=first\nE=first\n")
    second = node.file("second", "D=second\nE=second\nPATH=/second\n")
    found = await node.environment(
        spec(environment={"E": "spec", "LANG": "C"}, environment_files=[first, second]),
        dict.fromkeys("BCDE", "plan") | {"HOME": "/plan"},
    )
    assert found == DAEMONS_OWN | {
        "A": "daemon",
        "B": "plan",
        "C": "first",
        "D": "second",
        "E": "spec",
        "LANG": "C",
        "HOME": "/plan",
        "PATH": "/second",
    }


# Files


def test_a_file_is_lines_of_names_and_values_as_they_stand(node: Node) -> None:
    text = """\
# a comment
  # another one
PLAIN=value
EMPTY=
BLANKS=  two  \x20
QUOTED="as 'it' stands" # no comment
EQUALS=a=b=c
SECRET=$HOME\\n%s
  INDENTED =value

\t
UNICODE=é\u2028€\x85\x0b\x0c\x1e
TWICE=first
TWICE=second
LAST=no newline"""
    assert read_environment_file(node.file("file", text)) == {
        "PLAIN": "value",
        "EMPTY": "",
        "BLANKS": "  two   ",
        "QUOTED": "\"as 'it' stands\" # no comment",
        "EQUALS": "a=b=c",
        "SECRET": "$HOME\\n%s",
        "INDENTED": "value",
        "UNICODE": "é\u2028€\x85\x0b\x0c\x1e",
        "TWICE": "second",
        "LAST": "no newline",
    }


def test_a_file_from_windows_is_read_all_the_same(node: Node) -> None:
    (node.folder / "file").write_bytes(b"A=1\r\n\r\nB=2\r\n")
    assert read_environment_file(str(node.folder / "file")) == {"A": "1", "B": "2"}


def test_an_empty_file_says_nothing(node: Node) -> None:
    assert read_environment_file(node.file("file", "")) == {}


@pytest.mark.parametrize(
    "line", ["hf_secret", "=hf_secret", " =hf_secret", "export HF_TOKEN=hf_secret", "A=hf_secret\0", "{"]
)
def test_a_wrong_line_is_named_by_its_number_and_never_shown(node: Node, line: str) -> None:
    path = node.file("file", f"A=hf_secret\n\n# comment\n{line}\nB=2\n")
    with pytest.raises(EngineUnavailable) as refused:
        read_environment_file(path)
    assert refused.value.text == f"environment file {path}: line 4 is not NAME=value"
    assert refused.value.__context__ is None


def test_a_file_that_can_not_be_read_is_named_with_why(node: Node) -> None:
    (node.folder / "folder").mkdir()
    (node.folder / "latin").write_bytes(b"A=\xe9hf_secret")
    for name, why in (
        ("none", "No such file or directory"),
        ("folder", "Is a directory"),
        ("latin", "not UTF-8"),
    ):
        with pytest.raises(EngineUnavailable) as refused:
            read_environment_file(str(node.folder / name))
        assert refused.value.text == f"environment file {node.folder / name}: {why}"


# Launched


async def test_output_goes_to_the_journal_under_the_name_of_shard_and_process(node: Node) -> None:
    process = replace(ENGINE, name="ray-head", argv=("/bin/sh", "-c", "echo out; echo error >&2"))
    assert await node.printed(spec(), process) == (
        "a/ray-head|llmgw-shard-a.scope|6|0|0|0|0",
        b"out\nerror\n",
    )


async def test_it_runs_where_and_within_what_the_configuration_says(node: Node) -> None:
    node.configure(limit_nofile=77, limit_memlock=4096)
    node.file("here", "")
    text = "ulimit -Hn; ulimit -Sn; ulimit -Hl; echo h*e"
    process = replace(ENGINE, argv=("/bin/sh", "-c", text), working_directory=str(node.folder))
    assert await node.printed(spec(), process) == (
        "a/engine|llmgw-shard-a.scope|6|0|0|0|0",
        b"77\n77\n4\nhere\n",
    )


async def test_its_status_is_kept_beside_its_record(node: Node) -> None:
    await node.printed(spec(), replace(ENGINE, argv=("/bin/sh", "-c", "exit 3")))
    assert gate.read_status(node.folder / "state/llmgw-shard-a.exits/engine") == "3"


def test_without_a_journal_nothing_is_launched(node: Node) -> None:
    node.configure(journal_namespace="other")
    with pytest.raises(EngineUnavailable, match=r": no output for process engine: cannot open"):
        node.launcher.launch("llmgw-shard-a", "llmgw-shard-a.scope", "a", spec(), ENGINE)
    assert not (node.folder / "state").exists()


# Checked


def plan(*processes: Process) -> Plan:
    return Plan(processes, (), None, ())


def test_a_plan_is_resolved_against_this_node(node: Node) -> None:
    (node.folder / "env").write_text("#!/bin/sh\n")
    (node.folder / "env").chmod(0o755)
    own = {"PATH": str(node.folder)}
    sidecar = Process("head", ("env", "-x"), own, "/", ("leader:1",))
    planned = plan(sidecar, replace(ENGINE, argv=("env", "-0")))
    assert node.launcher.resolve(spec(), planned) == plan(
        replace(sidecar, argv=(f"{node.folder}/env", "-x")), ENGINE
    )


def test_what_has_another_name_here_is_run_by_that_one(node: Node) -> None:
    process = replace(ENGINE, argv=("none", "-0"), or_named=("nothing", "/usr/bin/env", "sh"))
    resolved = node.launcher.resolve(spec(), plan(process))
    assert resolved == plan(replace(process, argv=("/usr/bin/env", "-0")))


@pytest.mark.parametrize(
    ("process", "why"),
    [
        (replace(ENGINE, argv=("none",)), f"executable none not found in {PATH}"),
        (replace(ENGINE, argv=("/none",)), "executable /none: No such file or directory"),
        (
            replace(ENGINE, working_directory="/none"),
            "working directory /none does not exist or is no directory",
        ),
    ],
)
def test_what_this_node_does_not_have_is_named(node: Node, process: Process, why: str) -> None:
    with pytest.raises(EngineUnavailable) as refused:
        node.launcher.resolve(spec(), plan(ENGINE, process))
    assert refused.value.text == why


def test_files_are_read_before_anything_is_started(node: Node) -> None:
    path = node.file("file", "no variable")
    with pytest.raises(EngineUnavailable, match=r"line 1 is not NAME=value$"):
        node.launcher.resolve(spec(environment_files=[path]), plan(ENGINE))


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"user": "nemo"}, "user nemo does not exist on this node"),
        ({"user": "root", "group": "nihil"}, "group nihil does not exist on this node"),
    ],
)
def test_a_user_or_group_that_this_node_does_not_know_is_named(
    node: Node, values: dict[str, object], why: str
) -> None:
    with pytest.raises(EngineUnavailable) as refused:
        node.launcher.resolve(spec(**values), plan(ENGINE))
    assert refused.value.text == why
    with pytest.raises(EngineUnavailable) as refused:
        node.launcher.launch("llmgw-shard-a", "llmgw-shard-a.scope", "a", spec(**values), ENGINE)
    assert refused.value.text == why
