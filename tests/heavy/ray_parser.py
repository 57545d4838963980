"""A program that has Ray itself read command lines of `ray start`, and prints what it makes of them.

Standard input: a list of command lines of `ray`, as JSON. Last line of the output: for each, what its options
became, or why it was refused. It starts nothing.
"""

import json
import sys

import click
from ray.scripts.scripts import cli  # type: ignore[import-not-found]


def answer(argv: list[str]) -> dict[str, object]:
    start = cli.commands[argv[1]]
    try:
        given = start.make_context(argv[1], argv[2:]).params
    except click.UsageError as error:
        return {"refused": error.format_message()}
    silent = start.make_context(argv[1], []).params
    return {name: value for name, value in given.items() if value != silent[name]}


print(json.dumps([answer(argv) for argv in json.load(sys.stdin)]))
