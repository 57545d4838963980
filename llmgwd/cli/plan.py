"""`llmgwctl plan`: the command lines of a start, as a shell would take them."""

import re
import shlex
from argparse import Namespace
from collections.abc import Mapping, Sequence
from typing import Any

from llmgwd.cli import exits
from llmgwd.cli.answer import print_json, print_lines
from llmgwd.cli.complaint import warning
from llmgwd.cli.spec_values import spec_values
from llmgwd.cli.terminal import one_line
from llmgwd.client.node import NodeClient

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


async def plan(client: NodeClient, arguments: Namespace) -> int:
    commands: Sequence[Mapping[str, Any]] = await client.plan_shard(arguments.id, spec_values(arguments))
    if arguments.json:
        print_json(commands)
        return exits.DONE
    for command in commands:
        print_lines(_comments(command))
        print(shell_line(command["argv"], command["environment"]))
    for text in dict.fromkeys(text for command in commands for text in command["warnings"]):
        warning(text)
    return exits.DONE


def _comments(command: Mapping[str, Any]) -> list[str]:
    directory = f", in {command['working_directory']}" if command["working_directory"] else ""
    waits = [f"# waits for {address}" for address in command["waits_for"]]
    return [one_line(f"# {command['name']}{directory}"), *map(one_line, waits)]


def shell_line(argv: Sequence[str], environment: Mapping[str, str]) -> str:
    """One command for a POSIX shell, quoted where it has to be."""
    assignments = [
        f"{name}={shlex.quote(value)}" for name, value in environment.items() if _NAME.fullmatch(name)
    ]
    # what a shell takes for no variable's name needs env(1)
    others = [f"{name}={value}" for name, value in environment.items() if not _NAME.fullmatch(name)]
    words = ["env", *others, *argv] if others else list(argv)
    return " ".join([*assignments, shlex.join(words)])
