"""The commands that show something and end: `status`, `list`, `node`, `orphans`."""

import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from llmgwd.cli import exits
from llmgwd.cli.answer import keyed, print_json, print_lines
from llmgwd.cli.describe import node_lines, shard_lines
from llmgwd.cli.shard_table import shard_table
from llmgwd.cli.table import table
from llmgwd.cli.terminal import tint, width
from llmgwd.client.node import NodeClient
from llmgwd.model.lifecycle import State

Properties = Mapping[str, Any]


async def status(client: NodeClient, arguments: Namespace) -> int:
    """Of one shard everything; of all, how many are in which state, and the table."""
    if arguments.id is not None:
        shard = await client.read_shard(arguments.id)
        if arguments.json:
            print_json(keyed(shard))
        else:
            print_lines(shard_lines(shard))
        return exits.DONE if shard["State"] == "ready" else exits.NOT_READY
    shards = await client.list_shards()
    if arguments.json:
        print_json([keyed(shard) for shard in shards])
        return exits.DONE
    node = await client.read_node()
    summary = _counted(shards) + _counted_orphans(len(await client.list_orphans()), user=arguments.user)
    print(f"llmgwd {node['Version']} on {node['NodeName']}: {', '.join(summary)}")
    if shards:
        print()
        print_lines(shard_table(shards, width=width(sys.stdout)))
    return exits.DONE


async def list_shards(client: NodeClient, arguments: Namespace) -> int:
    shards = await client.list_shards()
    if arguments.json:
        print_json([keyed(shard) for shard in shards])
    else:
        print_lines(shard_table(shards, width=width(sys.stdout)))
    return exits.DONE


async def node(client: NodeClient, arguments: Namespace) -> int:
    properties = await client.read_node()
    if arguments.json:
        print_json(keyed(properties))
    else:
        print_lines(node_lines(properties))
    return exits.DONE


async def orphans(client: NodeClient, arguments: Namespace) -> int:
    found: Sequence[Properties] = await client.list_orphans()
    if arguments.json:
        print_json(found)
        return exits.DONE
    if not found:
        print("no orphans")
        return exits.DONE
    rows = [(orphan["unit"], orphan["id"], " ".join(map(str, orphan["pids"]))) for orphan in found]
    print_lines(table(("UNIT", "ID", "PIDS"), rows, width=width(sys.stdout)))
    return exits.DONE


def _counted(shards: Sequence[Properties]) -> list[str]:
    """How many are in which state, in the order in which a shard has them."""
    counts = Counter(str(shard["State"]) for shard in shards)
    present = [state.value for state in State if state in counts]
    return [f"{counts[state]} {tint(state, state)}" for state in present] or ["no shards"]


def _counted_orphans(number: int, *, user: bool) -> list[str]:
    orphans = "1 orphan" if number == 1 else f"{number} orphans"
    return [f"{orphans} (llmgwctl {'--user ' if user else ''}orphans)"] if number else []
