"""`llmgwctl logs`: the last lines of a shard's output, and with -f those that follow."""

import asyncio
import contextlib
import json
from argparse import Namespace
from collections.abc import AsyncIterator
from typing import Final, cast

from llmgwd.cli import exits, journal
from llmgwd.cli.answer import print_json, print_json_line, print_lines
from llmgwd.cli.complaint import Unusable, problem
from llmgwd.cli.reader import while_somebody_reads
from llmgwd.client.node import NodeClient

_LINES_BEFORE: Final = 10  # as `tail -f` and `journalctl -f`
_NEW_RUN: Final = "-- new run --"
_LONGEST_RECORD: Final = 16 * 1024 * 1024


async def logs(client: NodeClient, arguments: Namespace) -> int:
    if arguments.follow:
        return await _follow(client, arguments)
    if arguments.lines == 0:  # on the bus it would mean "as many as usual"
        await client.get_shard(arguments.id)
        lines = []
    else:
        lines = await client.tail_shard(arguments.id, arguments.lines or 0)
    if arguments.json:
        print_json(lines)
    else:
        print_lines(lines)
    return exits.DONE


async def _follow(client: NodeClient, arguments: Namespace) -> int:
    """Goes on whatever becomes of the shard and of the daemon, until it is interrupted."""
    source = journal.Source.of(await client.read_shard(arguments.id), user=arguments.user)
    if not journal.readable(user=arguments.user):
        problem(
            arguments.what,
            "this user may not read the journal (use sudo, or be in the group systemd-journal)",
        )
        return exits.FAILED
    lines = journal.Lines(source)
    command = source.command(_LINES_BEFORE if arguments.lines is None else arguments.lines)
    async with _running(command) as (process, stdout, stderr):
        with while_somebody_reads():
            async for printed in stdout:
                record = json.loads(printed)
                if lines.begins_run(record) and not arguments.json:
                    print(_NEW_RUN, flush=True)
                line = lines.read(record)
                if line is not None:
                    print_json_line(line) if arguments.json else print(line, flush=True)
        complaint = (await stderr.read()).decode(errors="replace").strip()
        status = await process.wait()
        problem(arguments.what, f"journalctl ended: {complaint or f'status {status}'}")
    return exits.FAILED


@contextlib.asynccontextmanager
async def _running(
    command: list[str],
) -> AsyncIterator[tuple[asyncio.subprocess.Process, asyncio.StreamReader, asyncio.StreamReader]]:
    pipe = asyncio.subprocess.PIPE
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=pipe,
            stderr=pipe,
            limit=_LONGEST_RECORD,
            process_group=0,  # a ^C is ours: asyncio complains about a child that ends just as it is ended
        )
    except OSError as error:
        raise Unusable(f"cannot run {command[0]}: {error.strerror}") from error
    try:
        yield process, cast(asyncio.StreamReader, process.stdout), cast(asyncio.StreamReader, process.stderr)
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
        await process.wait()
