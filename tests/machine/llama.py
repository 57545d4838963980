"""The real llama-server of tests/real where the engines' user of a machine can run it, and a model for it."""

from pathlib import Path
from typing import Final

from tests.machine import laid
from tests.machine.layer import TREE
from tests.machine.machine import Machine
from tests.real import gguf

_PLACE: Final = "/opt/llama-server"


def path_inside(program: Path) -> str:
    """Where `program` is in a machine once it is `laid`; an installed one is where it is here."""
    return f"{_PLACE}/{program.name}" if program.is_relative_to(TREE) else str(program)


def lay(machine: Machine, program: Path) -> None:
    """Makes it readable for everybody, wherever the checkout is."""
    laid.lay(machine, program.parent, _PLACE)


def write_model(machine: Machine, path: str, shape: gguf.Shape) -> None:
    """Random weights, which any user of the machine may read."""
    model = machine.path(path)
    gguf.write(model, shape)
    model.chmod(0o644)
