"""Engines whose command lines can be read without GPUs: the package itself, and what it imports for that.

Most of it (torch, transformers) they find in the environment of the real vLLM.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from llmgwd.engines.options import refuse_repeated
from llmgwd.model.errors import InvalidSpec
from tests.heavy.golden_lines import read_by
from tests.heavy.vllm import vllm
from tests.real.cache import CACHE, cached
from tests.real.packages import Package, install


@dataclass(frozen=True, slots=True)
class Parser:
    """`packages`: the engine's first. `program` reads command lines with it; see lmdeploy_parser.py."""

    packages: tuple[Package, ...]
    program: str


LMDEPLOY: Final = Parser(
    (
        Package("lmdeploy", "0.18.0", ("e6790a25dcdb0345c160567fdf2ac604fec319389523a8b806834c9d92c8ffe1",)),
        Package(
            "mmengine-lite", "0.10.7", ("2d05ab34aa3a0ce13a4f922ded1b066fbda91e0e49be786b786c024c1d6044d5",)
        ),
        Package("addict", "2.4.0", ("249bb56bbfd3cdc2a004ea0ff4c2b6ddc84d53bc2194761636eb314d5cfa5dfc",)),
        Package(
            "platformdirs", "4.14.9", ("d0d3a23e7ff282cfa94b77f5a22b81030dcb68ba0430f90c74f4bd8d090782ea",)
        ),
        Package("shortuuid", "1.0.13", ("a482a497300b49b4953e15108a7913244e1bb0d41f9d332f5e9925dba33a3c5a",)),
        Package("termcolor", "3.3.0", ("cf642efadaf0a8ebbbf4bc7a31cec2f9b5f21a9f726f4ccbb08192c9c26f43a5",)),
        Package("yapf", "0.43.0", ("224faffbc39c428cb095818cf6ef5511fdab6f7430a10783fdfb292ccf2852ca",)),
    ),
    "lmdeploy_parser.py",
)
SGLANG: Final = Parser(
    (
        Package("sglang", "0.5.23", ("00b3cd5b265ac76c64185fbb6b95424f324ddd9f428d0306b77bc9db9d859937",)),
        Package("ipython", "9.18.1", ("997ce9140d374531a61069c70c0f9ef299d6dd3559ea0f94b8af589726e3c1d5",)),
        Package("orjson", "3.13.0", ("89bcf2d4bc6c9a7e1763c8cf534f38712e66b76a0fefda7fb7785462f0d635e4",)),
        Package("traitlets", "5.16.1", ("f775618166caa0396c8e337099240f2bd3e5e917d203b2e6fbe21a58d3cb1f6b",)),
        Package("triton", "3.9.0", ("1622118a038b0c6e16fa4a0305da62c8b3c15904ee1cc4d4e65846a25969e41e",)),
    ),
    "sglang_parser.py",
)


@dataclass(frozen=True, slots=True)
class Read:
    """What the engine itself says: `spellings` of each option that it has, and an answer to each line."""

    spellings: list[list[str]]
    answers: list[dict[str, Any]]

    def spellings_of(self, known: Mapping[str, str]) -> set[str]:
        """Of every option that has one spelling among `known`, all."""
        return {
            spelling
            for option in self.spellings
            if not known.keys().isdisjoint(option)
            for spelling in option
        }

    def wrongly_refused(self, known: Mapping[str, str]) -> list[str]:
        """Spellings that are none of `known` and may not be in the args of a spec nevertheless."""
        others = (spelling for option in self.spellings for spelling in option if spelling not in known)
        return [spelling for spelling in others if _is_refused(spelling, known)]


def _is_refused(option: str, known: Mapping[str, str]) -> bool:
    try:
        refuse_repeated([option], known, argparse=True)
    except InvalidSpec:
        return True
    return False


def read(parser: Parser, lines: Collection[Sequence[str]], home: Path) -> Read:
    """Raises PackageError, CalledProcessError."""
    packages = cached(CACHE / parser.packages[0].directory, lambda directory: _install(parser, directory))
    said = read_by(
        vllm() / "bin/python3",
        parser.program,
        lines=lines,
        environment={
            "HOME": str(home),
            "PYTHONPATH": str(packages),
            "CUDA_VISIBLE_DEVICES": "",
            "HF_HUB_OFFLINE": "1",
        },
    )
    return Read(said["spellings"], said["answers"])


def _install(parser: Parser, directory: Path) -> None:
    for package in parser.packages:
        install(package, directory)
