"""Every test of the supervisor may have a world."""

from tests.fakes.world_fixtures import world

__all__ = ["world"]
