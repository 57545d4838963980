"""A node for the command line: a private bus, a fake daemon."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.node import FakeNode, private_bus


@pytest.fixture(scope="session")
def bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with private_bus(tmp_path_factory.mktemp("bus")) as address:
        yield address


@pytest.fixture
def away(bus: str, tmp_path: Path) -> Iterator[FakeNode]:
    """The daemon is not there."""
    node = FakeNode(bus)
    try:
        yield node
    finally:
        node.kill()


@pytest.fixture
def node(away: FakeNode) -> FakeNode:
    away.start()
    return away
