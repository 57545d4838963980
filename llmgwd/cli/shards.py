"""The commands that change something."""

from argparse import Namespace
from typing import Final

from llmgwd.cli import exits
from llmgwd.cli.complaint import gave_up, problem, quoted, refused
from llmgwd.cli.describe import because
from llmgwd.cli.progress import progress, remark
from llmgwd.cli.spec_values import spec_values
from llmgwd.cli.waiting import TimeUp, Verdict, end, reach, until
from llmgwd.client.errors import Unreachable
from llmgwd.client.node import NodeClient
from llmgwd.model.errors import NoSuchShard, Refusal
from llmgwd.model.lifecycle import TERMINAL, State
from llmgwd.model.wording import as_typed

_LAST_WORDS: Final = 5


async def start(client: NodeClient, arguments: Namespace) -> int:
    """Says of a shard that was there already in which state it is: then nothing was started."""
    values = spec_values(arguments)
    try:
        there = str((await client.read_shard(arguments.id))["State"])
    except NoSuchShard:
        there = ""
    await client.start_shard(arguments.id, values)
    runs = there != "" and there not in TERMINAL
    if not arguments.wait or there == State.READY:
        remark(f"{arguments.id}: {there} already" if runs else f"{arguments.id}: accepted")
        return exits.DONE
    status = await _wait_for(client, arguments, reach(State.READY))
    if status != exits.DONE:
        await _quote_output(client, arguments.id)
    return status


async def wait(client: NodeClient, arguments: Namespace) -> int:
    await client.get_shard(arguments.id)
    try:
        return await _wait_for(client, arguments, reach(arguments.state), arguments.timeout)
    except TimeUp as time_up:
        shard = time_up.still[arguments.id]
        # what a ready shard is ready for does not say why it is nothing else
        why = "" if shard["State"] == State.READY else because(shard)
        after = f"after {as_typed(arguments.timeout)} s"
        gave_up(f"{after}: shard {arguments.id} is still {shard['State']}{why}")
        return exits.FAILED


async def _wait_for(
    client: NodeClient, arguments: Namespace, verdict: Verdict, timeout_s: float | None = None
) -> int:
    outcomes = await until(client, [arguments.id], verdict, progress(client), timeout_s=timeout_s)
    if outcomes[arguments.id]:
        problem(arguments.what, outcomes[arguments.id])
        return exits.FAILED
    return exits.DONE


async def _quote_output(client: NodeClient, id: str) -> None:
    """Why it failed is often in its last words; that they can't be had is not worth one of ours."""
    try:
        quoted(await client.tail_shard(id, _LAST_WORDS))
    except (Refusal, Unreachable):
        pass


async def stop(client: NodeClient, arguments: Namespace) -> int:
    """Says of each shard how it ended, also where that was long ago."""
    statuses = {exits.DONE}
    stopping = await (_stop_all if arguments.all else _stop_each)(client, arguments, statuses)
    if arguments.no_wait:
        for shard_id in stopping:
            remark(f"{shard_id}: being stopped")
    elif stopping:
        outcomes = await until(client, stopping, end, progress(client))
        for shard_id, outcome in outcomes.items():
            if outcome:
                problem(f"stop shard {shard_id}", outcome)
                statuses.add(exits.FAILED)
    return exits.FAILED if exits.FAILED in statuses else max(statuses)


async def _stop_all(client: NodeClient, arguments: Namespace, _: set[int]) -> list[str]:
    """The shards that are live."""
    stopping = [str(shard["Id"]) for shard in await client.list_shards() if shard["State"] not in TERMINAL]
    await client.stop_all(drain_seconds=arguments.drain, timeout_seconds=arguments.timeout)
    if not stopping:
        remark("nothing to stop")
    return stopping


async def _stop_each(client: NodeClient, arguments: Namespace, statuses: set[int]) -> list[str]:
    """Those that were live; `statuses` gets that of each that is refused."""
    stopping = []
    for shard_id in dict.fromkeys(arguments.ids):
        try:
            before = str((await client.read_shard(shard_id))["State"])
            await client.stop_shard(
                shard_id, drain_seconds=arguments.drain, timeout_seconds=arguments.timeout
            )
        except Refusal as refusal:
            statuses.add(refused(f"stop shard {shard_id}", refusal, user=arguments.user))
        else:
            if before in TERMINAL:
                remark(f"{shard_id}: {before} already")
            else:
                stopping.append(shard_id)
    return stopping


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
