"""What can be typed, and what it means."""

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from llmgwd.cli.main import parse
from llmgwd.cli.spec_values import spec_values


def values(*words: str) -> dict[str, object]:
    return spec_values(parse(["start", "a", *words]))


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("8000", 8000),
        ("1.5", 1.5),
        ("true", True),
        ('"8000"', "8000"),
        ("[1, 2]", [1, 2]),
        ('{a = "b"}', {"a": "b"}),
        ("plain words", "plain words"),
        ("", ""),
        ("/srv/m=1", "/srv/m=1"),
        ("2024-01-01", "2024-01-01"),
        ("1\nb = 2", "1\nb = 2"),
        ("True", "True"),
        ("[1,", "[1,"),
    ],
)
def test_a_value_is_toml_or_else_a_string(typed: str, meant: object) -> None:
    assert values("--set", f"key={typed}") == {"key": meant}


def test_of_two_flags_for_a_key_the_later_counts() -> None:
    assert values("--port", "1", "--set", "port=2", "--set", "model=x", "--model", "y") == {
        "port": 2,
        "model": "y",
    }
    assert values("--gpu", "0", "--gpu", "1") == {"gpus": ["0", "1"]}
    assert values("--set", "gpus=[]") == {"gpus": []}


def test_after_dashes_stand_arguments_or_the_command_itself() -> None:
    assert values("--engine", "vllm", "--", "--port=1", "--") == {
        "engine": "vllm",
        "args": ["--port=1", "--"],
    }
    assert values("--set", "engine=command", "--", "sleep", "5") == {
        "engine": "command",
        "command": ["sleep", "5"],
    }
    assert values("--engine", "command", "--") == {"engine": "command", "command": []}
    assert values("--engine", "command") == {"engine": "command"}


def test_dashes_elsewhere_only_end_the_options() -> None:
    assert parse(["stop", "--", "-x", "start"]).ids == ["-x", "start"]
    assert parse(["--user", "status", "--", "-x"]).id == "-x"
    assert (parse(["--user", "plan", "--", "-x"]).id, parse(["plan", "--", "-x"]).after_dashes) == (
        "-x",
        None,
    )


def test_a_wait_is_for_ready_unless_it_says_otherwise() -> None:
    assert parse(["wait", "a"]).state == "ready"
    assert parse(["wait", "a", "--for", "stopped"]).state == "stopped"


def test_the_version_is_the_packages(capsys: pytest.CaptureFixture[str]) -> None:
    assert main_ends(["--version"], capsys) == (0, f"llmgwctl {version('llmgwd')}\n", "")


@pytest.mark.parametrize(
    ("words", "command", "complaint"),
    [
        ("list --jsno", "list", "unrecognized arguments: --jsno (did you mean --json?)"),
        ("status a b", "status", "unrecognized arguments: b"),
        ("start a --modle=m", "start", "unrecognized arguments: --modle=m (did you mean --model?)"),
        (
            "start a --engine command /bin/sleep --time 5",
            "start",
            "unrecognized arguments: /bin/sleep --time 5 (put the program after --)",
        ),
        (
            "plan a --engine vllm --max-model-len 4096",
            "plan",
            "unrecognized arguments: --max-model-len 4096 (put the engine's own arguments after --)",
        ),
        ("plan --engine command", "plan", "the following arguments are required: ID (before --)"),
    ],
)
def test_wrong_usage_shows_that_of_the_command_and_what_may_be_meant(
    capsys: pytest.CaptureFixture[str], words: str, command: str, complaint: str
) -> None:
    status, out, err = main_ends(words.split(), capsys)

    assert (status, out) == (2, "")
    assert err.startswith(f"usage: llmgwctl {command} [-h]")
    assert err.endswith(f"\nllmgwctl {command}: error: {complaint}\n")


def test_help_says_what_scripts_and_operators_ask(capsys: pytest.CaptureFixture[str]) -> None:
    asked = {
        "--help": "Exit status: 0 done; 1 refused or failed; 2 wrong usage; 3 `status ID` of a shard that is "
        "not ready; 4 no such shard; 5 the daemon cannot be reached.",
        "logs --help": "Show what a shard's engine and sidecars printed in its present run, or in its last "
        "one when it has ended. With -f lines of later runs follow, and nothing ends it but an interrupt.",
        "kill-orphan --help": "End what runs in such a scope: SIGTERM first, SIGKILL for what is left. "
        "Returns when that has begun.",
    }
    for words, answer in asked.items():
        status, out, err = main_ends(words.split(), capsys)
        assert (status, err, answer in " ".join(out.split())) == (0, "", True)


def main_ends(words: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[object, str, str]:
    with pytest.raises(SystemExit) as end:
        parse(words)
    return end.value.code, *capsys.readouterr()


def test_the_module_is_a_program_and_help_loads_neither_loop_nor_bus() -> None:
    program = (
        "import runpy, sys\n"
        "sys.argv = ['llmgwctl', '--help']\n"
        "try:\n    runpy.run_module('llmgwd.cli.main', run_name='__main__')\n"
        "except SystemExit as end:\n    print(end.code)\n"
        "print(sorted({'asyncio', 'dbus_next', 'dbus_fast', 'json', 'tomllib'} & set(sys.modules)))\n"
    )
    printed = run(program)

    assert printed.startswith("usage: llmgwctl [-h] [--version] [--user] COMMAND ...\n")
    assert printed.endswith("0\n[]\n")


def test_a_command_loads_nothing_that_only_others_need() -> None:
    heavy = {
        "aiohttp",
        "psutil",
        "systemd",
        "sdnotify",
        "tomllib",
        "llmgwd.model.spec",
        "llmgwd.client.watch",
    }
    program = (
        "import sys\n"
        "from llmgwd.cli.main import main\n"
        "main(['list'])\n"
        f"print(sorted({heavy} & set(sys.modules)), 'llmgwd.client' in sys.modules)\n"
    )

    assert run(program, DBUS_SYSTEM_BUS_ADDRESS="unix:path=/nowhere") == "[] True\n"


def run(program: str, **environment: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True,
        cwd=Path(__file__).parents[2], env=environment,
    ).stdout  # fmt: skip
