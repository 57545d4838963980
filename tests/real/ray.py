"""A real Ray for tests, in a virtual environment of its own; its version and all that it needs are pinned."""

from pathlib import Path
from typing import Final

from tests.real import virtual_environment
from tests.real.cache import CACHE, cached
from tests.real.packages import install_all

VERSION: Final = "2.60.0"
# Made with: pip download --only-binary=:all: [--python-version 3.13] ray==2.60.0; sha256sum *.whl
PINS: Final = Path(__file__).with_suffix(".txt")
PROGRAM: Final = "bin/ray"


def ray() -> Path:
    """The directory in which PROGRAM is; 80 MB are got the first time. Raises PackageError."""
    return cached(CACHE / f"ray-{VERSION}", _make)


def _make(directory: Path) -> None:
    python = virtual_environment.make(directory)
    install_all(PINS, python)
    virtual_environment.write_program(directory, "ray", "ray.scripts.scripts")
