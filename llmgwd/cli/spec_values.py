"""What the arguments say a shard shall run. Which keys there are, and what they take, the daemon knows."""

import sys
import tomllib
from argparse import Namespace

from llmgwd.cli.complaint import Unusable
from llmgwd.cli.spec_arguments import Given

_COMMAND = "command"


def spec_values(arguments: Namespace) -> dict[str, object]:
    """The spec as plain values: of the file, then of the flags in their order. Raises Unusable."""
    values = _read(arguments.file) if arguments.file is not None else {}
    gpus: list[object] = []
    flags: list[Given] = arguments.given
    for given in flags:
        if given.key == "gpus" and not given.is_toml:
            gpus.append(given.value)
            values["gpus"] = gpus
        else:
            values[given.key] = _toml_or_text(str(given.value)) if given.is_toml else given.value
    if arguments.after_dashes is not None:
        values[_COMMAND if values.get("engine") == _COMMAND else "args"] = arguments.after_dashes
    return values


def _read(path: str) -> dict[str, object]:
    try:
        if path == "-":
            return tomllib.load(sys.stdin.buffer)
        with open(path, "rb") as file:
            return tomllib.load(file)
    except OSError as error:
        raise Unusable(f"cannot read {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Unusable(f"{path} is not TOML: {error}") from error


def _toml_or_text(text: str) -> object:
    """One TOML value, of the kinds that a spec has (no dates); anything else is a string as it stands."""
    try:
        document = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    value = document.pop("value", None)
    return value if not document and isinstance(value, bool | int | float | str | list | dict) else text
