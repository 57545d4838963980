"""Answers for programs: JSON, with the keys that the bridge gives."""

import json
import re
import sys
from collections.abc import Iterable, Mapping

_CAPITAL = re.compile(r"(?<!^)(?=[A-Z])")


def keyed(properties: Mapping[str, object]) -> dict[str, object]:
    """Properties of the bus with the bridge's keys: `OomKills` is `oom_kills`. What they hold stays."""
    return {_CAPITAL.sub("_", name).lower(): value for name, value in properties.items()}


def print_json(value: object) -> None:
    """One document; ASCII, so that no locale can spoil it."""
    print(json.dumps(value, indent=2))


def print_json_line(value: object) -> None:
    """One of a stream of documents, each a line, seen at once."""
    print(json.dumps(value), flush=True)


def print_lines(lines: Iterable[str]) -> None:
    sys.stdout.writelines(f"{line}\n" for line in lines)
