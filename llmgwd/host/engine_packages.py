"""Engines that other packages bring: their entry points in the group `llmgwd.engines`."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points

from llmgwd.engines.engine import Engine, Traits
from llmgwd.engines.registry import BUILT_IN

GROUP = "llmgwd.engines"
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Brought:
    """`names` of all of them; those that could not be used are not among `engines`, but have a complaint."""

    names: tuple[str, ...]
    engines: tuple[Engine, ...]
    complaints: tuple[str, ...]


class NotAnEngine(Exception):  # noqa: N818
    """Says in a few words what is wrong with it."""


def find_engines() -> Brought:
    """Imports what is installed. One that cannot be used is left out: the others do not suffer for it."""
    found = sorted(entry_points(group=GROUP), key=lambda point: point.name)
    engines: list[Engine] = []
    complaints: list[str] = []
    for point in found:
        try:
            taken = {engine.name for engine in (*BUILT_IN, *engines)}
            engines.append(_load(point, taken))
        except NotAnEngine as error:
            complaints.append(f"engine {point.name} of {_package(point)} cannot be used: {error}")
    return Brought(tuple(dict.fromkeys(point.name for point in found)), tuple(engines), tuple(complaints))


def _load(point: EntryPoint, taken: set[str]) -> Engine:
    if point.name in taken:
        raise NotAnEngine("the name is taken")
    try:
        engine: Engine = point.load()()
    except Exception as error:  # another's code may raise anything, and must not keep this daemon down
        log.debug("engine %s", point.name, exc_info=True)
        raise NotAnEngine(f"{type(error).__name__}: {error}") from error
    for problem in _problems(point, engine):
        raise NotAnEngine(problem)
    return engine


def _problems(point: EntryPoint, engine: object) -> Iterator[str]:
    if getattr(engine, "name", None) != point.name:
        yield f"it calls itself {getattr(engine, 'name', None)!r}"
    if not isinstance(getattr(engine, "traits", None), Traits):
        yield "its traits are no Traits"
    if not callable(getattr(engine, "plan", None)):
        yield "it has no plan"


def _package(point: EntryPoint) -> str:
    return f"package {point.dist.name}" if point.dist else "an unknown package"
