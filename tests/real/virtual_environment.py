"""Virtual environments of Python whose programs run wherever they are mounted."""

import venv
from pathlib import Path
from typing import Final

PROGRAM: Final = """#!/bin/sh
# The script that pip has written names its Python by the place where it was installed.
exec "${0%/*}/python3" -P -m {module} "$@"
"""


def make(directory: Path) -> Path:
    """An empty one, without pip; its Python, which is the one that this one was made from."""
    venv.create(directory, symlinks=True)
    return directory / "bin/python3"


def write_program(directory: Path, name: str, module: str) -> None:
    """`bin/NAME`, which runs `module`. It is to be called by its path, not by a link to it."""
    program = directory / "bin" / name
    program.write_text(PROGRAM.replace("{module}", module))
    program.chmod(0o755)
