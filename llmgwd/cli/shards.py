"""The commands that change something."""

from argparse import Namespace

from llmgwd.cli import exits
from llmgwd.cli.complaint import problem, refused
from llmgwd.cli.progress import progress
from llmgwd.cli.spec_values import spec_values
from llmgwd.cli.waiting import Verdict, end, reach, until
from llmgwd.client.node import NodeClient
from llmgwd.model.errors import Refusal
from llmgwd.model.lifecycle import TERMINAL, State


async def start(client: NodeClient, arguments: Namespace) -> int:
    await client.start_shard(arguments.id, spec_values(arguments))
    if not arguments.wait:
        return exits.DONE
    return await _wait_for(client, arguments, reach(State.READY))


async def wait(client: NodeClient, arguments: Namespace) -> int:
    await client.get_shard(arguments.id)
    return await _wait_for(client, arguments, reach(arguments.state), arguments.timeout)


async def _wait_for(
    client: NodeClient, arguments: Namespace, verdict: Verdict, timeout_s: float | None = None
) -> int:
    outcomes = await until(client, [arguments.id], verdict, progress(client), timeout_s=timeout_s)
    if outcomes[arguments.id]:
        problem(arguments.what, outcomes[arguments.id])
        return exits.FAILED
    return exits.DONE


async def stop(client: NodeClient, arguments: Namespace) -> int:
    options = {"drain_seconds": arguments.drain, "timeout_seconds": arguments.timeout}
    statuses = {exits.DONE}
    if arguments.all:
        stopping = [
            str(shard["Id"]) for shard in await client.list_shards() if shard["State"] not in TERMINAL
        ]
        await client.stop_all(**options)
    else:
        stopping = []
        for shard_id in dict.fromkeys(arguments.ids):
            try:
                await client.stop_shard(shard_id, **options)
            except Refusal as refusal:
                statuses.add(refused(f"stop shard {shard_id}", refusal, user=arguments.user))
            else:
                stopping.append(shard_id)
    if stopping and not arguments.no_wait:
        outcomes = await until(client, stopping, end, progress(client))
        for shard_id, outcome in outcomes.items():
            if outcome:
                problem(f"stop shard {shard_id}", outcome)
                statuses.add(exits.FAILED)
    return exits.FAILED if exits.FAILED in statuses else max(statuses)


async def drain(client: NodeClient, arguments: Namespace) -> int:
    await client.drain_shard(arguments.id)
    return exits.DONE


async def remove(client: NodeClient, arguments: Namespace) -> int:
    await client.remove_shard(arguments.id)
    return exits.DONE


async def kill_orphan(client: NodeClient, arguments: Namespace) -> int:
    await client.kill_orphan(arguments.unit)
    return exits.DONE


async def reload(client: NodeClient, arguments: Namespace) -> int:
    await client.reload()
    return exits.DONE
