"""Fixtures: a private bus, and a fake daemon that is on it or on another."""

from collections.abc import AsyncIterator, Iterator

import pytest

from llmgwd.bus.connection import Connection
from llmgwd.client.node import NodeClient
from tests.fakes.command import Zygote
from tests.fakes.node import FakeNode, private_bus


@pytest.fixture(scope="session")
def zygote() -> Iterator[Zygote]:
    zygote = Zygote()
    yield zygote
    zygote.close()


@pytest.fixture(scope="session")
def fake_node(tmp_path_factory: pytest.TempPathFactory, zygote: Zygote) -> Iterator[FakeNode]:
    """One for all: starting it takes longer than most tests."""
    with private_bus(tmp_path_factory.mktemp("bus")) as address:
        node = FakeNode(address, zygote)
        yield node
        node.kill()


@pytest.fixture
def node(fake_node: FakeNode) -> FakeNode:
    """The daemon is there, without a shard."""
    if fake_node.runs:
        fake_node.do("reset")
    else:
        fake_node.start()
    fake_node.environment.clear()
    return fake_node


@pytest.fixture(scope="session")
def away(tmp_path_factory: pytest.TempPathFactory, zygote: Zygote) -> Iterator[FakeNode]:
    """There is a bus, and no daemon on it."""
    with private_bus(tmp_path_factory.mktemp("empty-bus")) as address:
        yield FakeNode(address, zygote)


@pytest.fixture
async def client(node: FakeNode) -> AsyncIterator[NodeClient]:
    client = NodeClient(Connection(node.address, send_buffer=False))
    await client.connect()
    yield client
    await client.close()
