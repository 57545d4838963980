"""What is said of arguments that a command does not take."""

import argparse
import re
from collections.abc import Sequence
from typing import NoReturn

_ALIKE = 0.8


def refuse_leftover(arguments: argparse.Namespace, leftover: Sequence[str]) -> NoReturn:
    """End the program with status 2, the command's usage, and what may have been meant."""
    parser: argparse.ArgumentParser = arguments.parser
    parser.error(f"unrecognized arguments: {' '.join(leftover)}{_hint(arguments, leftover[0])}")


def _hint(arguments: argparse.Namespace, word: str) -> str:
    from difflib import get_close_matches  # noqa: PLC0415  (nobody else has to wait for it)

    options = re.findall(r"--[a-z-]+", arguments.parser.format_usage())
    near = get_close_matches(word.partition("=")[0], options, 1, _ALIKE)
    if near:
        return f" (did you mean {near[0]}?)"
    if arguments.command not in {"start", "plan"}:
        return ""
    of_command = any(given.key == "engine" and given.value == "command" for given in arguments.given)
    what = "the program" if of_command else "the engine's own arguments"
    return f" (put {what} after --)"
