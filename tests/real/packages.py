"""Packages from Python's package index, each known by its hash: so nobody can put another in its place."""

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


class PackageError(Exception):
    """pip could not get a package; says what it said last."""


@dataclass(frozen=True, slots=True)
class Package:
    """One version. `sha256`: of every file of it that may be taken, one for each kind of processor."""

    name: str
    version: str
    sha256: tuple[str, ...]

    @property
    def directory(self) -> str:
        return f"{self.name}-{self.version}"

    @property
    def requirement(self) -> str:
        """A line of a requirements file (pip's documentation, "Secure installs")."""
        return " ".join(
            (f"{self.name}=={self.version}", *(f"--hash=sha256:{digest}" for digest in self.sha256))
        )


def install(package: Package, target: Path) -> None:
    """Unpacks a wheel into a directory. Runs nothing of it. Raises PackageError."""
    options = ("--no-compile", "--only-binary=:all:", f"--target={target}")
    _pip("install", *options, what=package.name, requirements=package.requirement)


def install_all(requirements: Path, python: Path) -> None:
    """Unpacks the wheels that a file of requirements names, each with its hashes, for one Python.

    Nothing of them is run; they are compiled now, because later nobody may be able to. Raises PackageError.
    """
    _pip(
        "install", "--only-binary=:all:",
        what=requirements.stem,
        requirements=requirements.read_text(),
        options=("--python", str(python)),
    )  # fmt: skip


def download(package: Package, directory: Path) -> Path:
    """The archive of a source package. pip asks its build script for its name. Raises PackageError."""
    options = (f"--no-binary={package.name}", f"--dest={directory}")
    _pip("download", *options, what=package.name, requirements=package.requirement)
    (archive,) = directory.iterdir()
    return archive


def _pip(command: str, *arguments: str, what: str, requirements: str, options: Sequence[str] = ()) -> None:
    """`options` are those of pip itself, before its command."""
    ran = subprocess.run(
        [
            sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--no-input", *options,
            command, *arguments, "--no-deps", "--require-hashes", "--requirement=/dev/stdin",
        ],
        input=requirements,
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    if ran.returncode != 0:
        said = [line for line in ran.stderr.splitlines() if line.startswith("ERROR")] or [ran.stderr.strip()]
        raise PackageError(f"pip {command} {what}: {said[-1]}")
