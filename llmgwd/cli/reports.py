"""The commands that show something and end: `status`, `list`, `node`, `orphans`."""

import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from llmgwd.cli import exits
from llmgwd.cli.answer import keyed, print_json, print_lines
from llmgwd.cli.describe import node_lines, shard_lines
from llmgwd.cli.table import table
from llmgwd.cli.terminal import tint, width
from llmgwd.client.node import NodeClient

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
    counts = Counter(str(shard["State"]) for shard in shards)
    summary = ", ".join(f"{number} {tint(state, state)}" for state, number in counts.items()) or "no shards"
    print(f"llmgwd {node['Version']} on {node['NodeName']}: {summary}")
    if shards:
        print()
        print_lines(_shard_table(shards))
    return exits.DONE


async def list_shards(client: NodeClient, arguments: Namespace) -> int:
    shards = await client.list_shards()
    if arguments.json:
        print_json([keyed(shard) for shard in shards])
    else:
        print_lines(_shard_table(shards))
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
    rows = [(orphan["unit"], orphan["id"], " ".join(map(str, orphan["pids"]))) for orphan in found]
    print_lines(table(("UNIT", "ID", "PIDS"), rows, width=width(sys.stdout)))
    return exits.DONE


def _state(shard: Properties) -> str:
    failing = shard["State"] == "ready" and shard["Health"] == "failing"
    return "ready, failing" if failing else str(shard["State"])


def _shard_table(shards: Sequence[Properties]) -> list[str]:
    rows = [
        (
            shard["Id"],
            _state(shard),
            shard["Engine"],
            shard["Model"],
            f"{shard['Rank']}/{shard['Nodes']}",
            shard["Endpoint"],
            shard["Reason"],
        )
        for shard in shards
    ]
    headings = ("ID", "STATE", "ENGINE", "MODEL", "RANK", "ENDPOINT", "REASON")
    return table(
        headings,
        rows,
        width=width(sys.stdout),
        tint=lambda heading, word: tint(word, word) if heading == "STATE" else word,
    )
