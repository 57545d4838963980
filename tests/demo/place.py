"""Where the story happens: what it needs of a machine, or of a user's own systemd."""

import subprocess
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Final, Protocol

from tests.real.gguf import Shape

Result = subprocess.CompletedProcess[str]

# 44 MB: fast enough to be pleasant, and slow enough to write for some seconds.
SHAPE: Final = Shape(layers=4, width=512, heads=8, context=16384)


class Place(Protocol):
    """llmgwd runs there, and can start llama-server."""

    opening: str
    """What was done to have it, as a sentence."""
    user_flag: tuple[str, ...]
    """What llmgwctl and systemctl have to be told: `--user`, or nothing."""
    engines_journal: str
    """What journalctl has to be told to read what engines print."""
    daemon_unit: str
    engine_user: str
    model: str
    port: int
    tree: str
    """Where this source tree is."""

    def run(self, command: Sequence[str], *, check: bool = True) -> Result:
        """A command to its end. Raises CommandError (with `check`), TimeoutExpired."""
        ...

    def popen(self, command: Sequence[str]) -> AbstractContextManager[subprocess.Popen[str]]:
        """A command beside the story, killed at the end of the block."""
        ...

    def journal(self) -> str:
        """What was logged, for a story that failed."""
        ...

    def shell(self) -> None:
        """A shell for the reader; returns when it is left."""
        ...
