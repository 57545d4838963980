"""Where the configuration lies, and the reading of it."""

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from llmgwd.config import Config, parse_config
from llmgwd.model.errors import InvalidConfig


@dataclass(frozen=True, slots=True)
class Places:
    """`file`, then what is in `file`.d, in name order."""

    file: Path
    user_mode: bool
    state_dir: str
    working_directory: str

    @classmethod
    def of_system(cls) -> "Places":
        return cls(Path("/etc/llmgwd/llmgwd.toml"), False, "/var/lib/llmgwd", "/var/lib/llmgw")

    @classmethod
    def of_user(cls) -> "Places":
        """As the XDG base directory specification says."""
        home = Path.home()
        configuration = _base("XDG_CONFIG_HOME", home / ".config")
        state = _base("XDG_STATE_HOME", home / ".local/state")
        return cls(configuration / "llmgwd/llmgwd.toml", True, str(state / "llmgwd"), str(home))

    def read(self, engines: Collection[str]) -> Config:
        """`engines`: the names of those that there are. A file that is not there says nothing.

        Raises InvalidConfig, naming the file.
        """
        return parse_config(
            self._documents(),
            engines=engines,
            user_mode=self.user_mode,
            state_dir=self.state_dir,
            working_directory=self.working_directory,
        )

    def _documents(self) -> Sequence[tuple[str, str]]:
        folder = self.file.with_name(self.file.name + ".d")
        files = [self.file, *sorted(folder.glob("*.toml"))]
        found = []
        for file in files:
            try:
                found.append((str(file), file.read_text(encoding="utf-8")))
            except FileNotFoundError:
                continue
            except (OSError, UnicodeDecodeError) as error:
                why = getattr(error, "strerror", None) or "not UTF-8"
                raise InvalidConfig(f"{file}: {why}") from error
        return found


def _base(name: str, default: Path) -> Path:
    """A base directory; one that is not absolute is to be ignored."""
    path = Path(os.environ.get(name, ""))
    return path if path.is_absolute() else default
