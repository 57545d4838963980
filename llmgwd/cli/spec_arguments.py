"""The spec on the command line: a file, flags that override it, and what stands after `--`."""

import argparse
from collections.abc import Sequence
from typing import NamedTuple


class Given(NamedTuple):
    """One flag; `is_toml`: the value is still to be read as TOML."""

    key: str
    value: object
    is_toml: bool = False


def add_spec_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "After -- stand the engine's own arguments; for the engine `command`, what it runs."
    parser.add_argument("id", nargs="?", metavar="ID", help="the shard's name")
    parser.add_argument(
        "--file", metavar="SPEC.toml", help="the spec, which flags override; - is standard input"
    )
    for flag, metavar, given, text in (
        ("--engine", "E", lambda word: Given("engine", word), "vllm, llama-cpp, command, …"),
        ("--model", "M", lambda word: Given("model", word), "path or name of the model"),
        ("--port", "P", lambda word: Given("port", int(word)), "where it serves"),
        ("--gpu", "N", lambda word: Given("gpus", word), "index or UUID of a GPU; may repeat"),
        ("--set", "KEY=VALUE", _assignment, "any key; VALUE is TOML, or a string where it is none"),
    ):
        given.__name__ = flag[2:]  # what argparse calls it when it refuses a value
        parser.add_argument(flag, action="append", dest="given", type=given, metavar=metavar, help=text)
    parser.set_defaults(given=[], after_dashes=None)


def split_at_dashes(words: Sequence[str]) -> tuple[list[str], list[str] | None]:
    """What stands before `--`, and what after it; None where there is no `--`."""
    if "--" not in words:
        return list(words), None
    at = words.index("--")
    return list(words[:at]), list(words[at + 1 :])


def settle_id(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> None:
    """Let an id that looks like an option stand after a `--` of its own: `start --engine E -- -x -- ARGS`."""
    if arguments.id is None:
        words, rest = split_at_dashes(arguments.after_dashes or [])
        if len(words) != 1:
            parser.error("the following arguments are required: ID (before --)")
        arguments.id, arguments.after_dashes = words[0], rest


def _assignment(text: str) -> Given:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return Given(key, value, is_toml=True)
