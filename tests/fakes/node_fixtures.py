"""Fixtures: a private bus, and a fake daemon that is on it or can come to it."""

from collections.abc import Iterator

import pytest

from tests.fakes.node import FakeNode, private_bus


@pytest.fixture(scope="session")
def bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with private_bus(tmp_path_factory.mktemp("bus")) as address:
        yield address


@pytest.fixture
def away(bus: str) -> Iterator[FakeNode]:
    """The daemon is not there yet."""
    node = FakeNode(bus)
    try:
        yield node
    finally:
        node.kill()


@pytest.fixture
def node(away: FakeNode) -> FakeNode:
    """The daemon is there, without a shard."""
    away.start()
    return away
