"""Every test of the face may have a world."""

from tests.fakes.world_fixtures import world

__all__ = ["world"]
