"""One command from the connection to its exit status."""

import asyncio
import importlib
import io
import logging
import os
import sys
from argparse import Namespace
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from llmgwd.bus.connection import Connection
from llmgwd.cli import exits
from llmgwd.cli.complaint import Unusable, problem, refused
from llmgwd.client.errors import Unreachable
from llmgwd.client.node import NodeClient
from llmgwd.model.errors import Refusal

Action = Callable[[NodeClient, Namespace], Awaitable[int]]

# Module and function that do it (a command loads no other's), and what follows "cannot" when they can't.
_ACTIONS: Final[Mapping[str, tuple[str, str, str]]] = {
    "start": ("shards", "start", "start {shard}"),
    "plan": ("plan", "plan", "plan {shard}"),
    "stop": ("shards", "stop", "stop {shard}"),
    "drain": ("shards", "drain", "drain {shard}"),
    "status": ("reports", "status", "show {shard}"),
    "list": ("reports", "list_shards", "list {shard}"),
    "wait": ("shards", "wait", "wait until {shard} is {state}"),
    "logs": ("logs", "logs", "show the log of {shard}"),
    "remove": ("shards", "remove", "remove {shard}"),
    "node": ("reports", "node", "show the node"),
    "events": ("events", "events", "show events"),
    "orphans": ("reports", "orphans", "list orphans"),
    "kill-orphan": ("shards", "kill_orphan", "kill orphan {unit}"),
    "reload": ("shards", "reload", "reload the configuration"),
}


def run(arguments: Namespace) -> int:
    """Carry out the command and give its exit status."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # an id may hold what the locale cannot print
    logging.getLogger("llmgwd").addHandler(logging.NullHandler())  # what matters comes as an exception
    module, function, cannot = _ACTIONS[arguments.command]
    action: Action = getattr(importlib.import_module(f"llmgwd.cli.{module}"), function)
    shard_id = getattr(arguments, "id", None)
    shard = "the shards" if shard_id is None else f"shard {shard_id}"
    arguments.what = cannot.format(shard=shard, **vars(arguments))
    try:
        return asyncio.run(_carry_out(action, arguments))
    except Refusal as refusal:
        return refused(arguments.what, refusal, user=arguments.user)
    except Unreachable as error:
        problem("reach llmgwd", str(error))
        return exits.UNREACHABLE
    except Unusable as error:
        problem(arguments.what, str(error))
        return exits.FAILED


async def _carry_out(action: Action, arguments: Namespace) -> int:
    connection = Connection("session" if arguments.user else "system", send_buffer=False)
    client = NodeClient(connection, interactive=os.geteuid() != 0 and sys.stdin.isatty())
    await client.connect()
    try:
        return await action(client, arguments)
    finally:
        await client.close()
