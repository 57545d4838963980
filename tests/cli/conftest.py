"""Every test of the command line may have a node."""

from tests.fakes.node_fixtures import away, fake_node, node, zygote

__all__ = ["away", "fake_node", "node", "zygote"]
