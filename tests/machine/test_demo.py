"""The demonstration, told as its reader would have it told; it checks itself what it says."""

import subprocess
import sys

import pytest

from tests.machine.layer import TREE
from tests.machine.machine import TREE_INSIDE, Machine
from tests.real.llama import llama_server

SENTENCES = 14
READER = "llmgwd-reader"  # a user that no host has


@pytest.fixture(autouse=True, scope="module")
def engine() -> None:
    """Is got before a story is told."""
    llama_server()


def numbers(story: str) -> list[int]:
    """Those of its sentences."""
    heads = (line.partition(". ")[0].strip() for line in story.splitlines() if not line.startswith("    "))
    return [int(head) for head in heads if head.isdigit()]


def test_the_story_is_so_in_a_machine() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "tests.demo"],
        cwd=TREE,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stdout
    assert numbers(ran.stdout) == list(range(1, SENTENCES + 1))
    assert ("random" in ran.stdout, "\x1b" in ran.stdout) == (True, False)


def test_the_story_is_so_with_the_systemd_of_a_user_and_leaves_nothing(machine: Machine) -> None:
    """The machine stands for the ordinary host."""
    machine.run(["useradd", "--create-home", READER])
    uid = machine.run(["id", "--user", READER]).stdout.strip()
    machine.run(["systemctl", "start", f"user@{uid}.service"])
    environment = {"HOME": f"/home/{READER}", "XDG_RUNTIME_DIR": f"/run/user/{uid}"}

    def as_reader(command: str, timeout_s: float = 30.0) -> subprocess.CompletedProcess[str]:
        in_tree = ["sh", "-c", f"cd {TREE_INSIDE} && {command}"]
        return machine.run(in_tree, user=READER, environment=environment, check=False, timeout_s=timeout_s)

    ran = as_reader(".venv/bin/python -m tests.demo", timeout_s=180)
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stdout
    assert numbers(ran.stdout) == list(range(1, SENTENCES + 1))
    units = as_reader("systemctl --user list-units --all --plain --no-legend 'llmgw*'").stdout
    files = as_reader(f"ls -A /home/{READER}/.config /home/{READER}/.local /tmp").stdout
    assert (units, "llmgw" in files) == ("", False)


def test_where_it_cannot_be_so_it_says_what_is_missing(shared_machine: Machine) -> None:
    told = ["sh", "-c", f"cd {TREE_INSIDE} && .venv/bin/python -m tests.demo"]
    ran = shared_machine.run(told, user="llmgw", check=False)
    no_user = "no user's systemd can be used (XDG_RUNTIME_DIR is not set, as it is in a user's session)"
    complaint = f"\ndemo: no machine can be booted here (needs root), and {no_user}\n"
    assert (ran.returncode, ran.stderr) == (1, complaint)
