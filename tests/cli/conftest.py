"""Every test of the command line may have a node."""

from tests.fakes.node_fixtures import away, bus, node

__all__ = ["away", "bus", "node"]
