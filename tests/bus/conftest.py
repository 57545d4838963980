"""A bus, connections to it, and the proof that a test left nothing behind."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from llmgwd.bus.connection import Connection
from tests.bus.example import Example
from tests.bus.private_bus import PrivateBus

Connect = Callable[..., Awaitable[Connection]]


def descriptors() -> dict[str, str]:
    """The open files of this process."""
    found = {}
    for fd in os.listdir("/proc/self/fd"):
        try:
            found[fd] = os.readlink(f"/proc/self/fd/{fd}")
        except FileNotFoundError:
            pass  # the one by which the directory was read
    return found


@pytest.fixture
async def nothing_left() -> AsyncIterator[None]:
    """Fails a test after which a task runs or a descriptor is open that was not there before."""
    before = descriptors()
    yield
    assert asyncio.all_tasks() - {asyncio.current_task()} == set()
    assert descriptors() == before


@pytest.fixture
def private_bus(nothing_left: None, tmp_path: Path) -> Iterator[PrivateBus]:
    """A running bus."""
    bus = PrivateBus(tmp_path)
    bus.start()
    yield bus
    bus.kill()


@pytest.fixture
async def connect(private_bus: PrivateBus) -> AsyncIterator[Connect]:
    """Makes connections to the bus, which own a name where one is given."""
    made: list[Connection] = []

    async def make(name: str = "", *, send_buffer: bool = True) -> Connection:
        connection = Connection(private_bus.address, name=name, send_buffer=send_buffer)
        made.append(connection)
        await connection.connect()
        if name:
            await connection.own_name()
        return connection

    yield make
    for connection in made:
        await connection.close()


@pytest.fixture
async def example(connect: Connect) -> Example:
    """A service on the bus."""
    example = Example()
    connection = await connect(example.NAME)
    connection.serve(example.objects)
    example.connection = connection
    return example


@pytest.fixture
async def client(connect: Connect) -> Connection:
    """Somebody else on the bus."""
    return await connect()
