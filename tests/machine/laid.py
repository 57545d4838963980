"""What was got for this tree (tests/real/cache.py), where the engines' user of a machine can run it."""

from pathlib import Path

from tests.machine.layer import TREE
from tests.machine.machine import TREE_INSIDE, Machine


def lay(machine: Machine, directory: Path, place: str) -> str:
    """Where a directory is in a machine: one of the tree at `place`, whoever may enter the checkout.

    Any other is where it is here: a machine sees this host's root, but for /tmp and /run.
    """
    if not directory.is_relative_to(TREE):
        return str(directory)
    machine.run(["mkdir", "-p", place])
    machine.run(["mount", "--bind", f"{TREE_INSIDE}/{directory.relative_to(TREE)}", place])
    return place


def write_program(machine: Machine, path: str, *command: str) -> None:
    """A program that is `command`, and hands its own arguments on."""
    program = machine.path(path)
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(f'#!/bin/sh\nexec {" ".join(command)} "$@"\n')
    program.chmod(0o755)
