"""Engines that other packages bring: their entry points in the group `llmgwd.engines`."""

import logging
from collections.abc import Collection
from dataclasses import dataclass
from importlib.metadata import Distribution, EntryPoint, distributions
from typing import cast

from llmgwd.engines.engine import Engine, Traits
from llmgwd.engines.registry import BUILT_IN
from llmgwd.model.wording import raised

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
    engines: list[Engine] = []
    points, complaints = _find_points()
    for point in points:
        try:
            engines.append(_load(point, {engine.name for engine in (*BUILT_IN, *engines)}))
        except NotAnEngine as error:
            complaints.append(f"engine {point.name} of {_called(point.dist)} cannot be used: {error}")
    return Brought(tuple(dict.fromkeys(point.name for point in points)), tuple(engines), tuple(complaints))


def _find_points() -> tuple[list[EntryPoint], list[str]]:
    """In the order of their names, and what cannot be read: the files of any package may be anything."""
    found: dict[tuple[str, str], EntryPoint] = {}  # of a package that is installed twice the first one counts
    complaints: list[str] = []
    for package in distributions():
        try:
            for point in package.entry_points.select(group=GROUP):
                found.setdefault((point.name, point.value), point)
        except Exception as error:  # noqa: BLE001 (importlib.metadata does not say which)
            complaints.append(f"the entry points of {_called(package)} cannot be read: {raised(error)}")
    return sorted(found.values(), key=lambda point: point.name), complaints


def _load(point: EntryPoint, taken: Collection[str]) -> Engine:
    if point.name in taken:
        raise NotAnEngine("the name is taken")
    try:
        return _checked(point.load()(), point.name)
    except NotAnEngine:
        raise
    # Another's code may raise anything, and must not keep this daemon down.
    except (Exception, SystemExit) as error:
        log.debug("engine %s", point.name, exc_info=True)
        raise NotAnEngine(raised(error)) from error


def _checked(made: object, name: str) -> Engine:
    if getattr(made, "name", None) != name:
        raise NotAnEngine(f"it calls itself {getattr(made, 'name', None)!r}")
    if not isinstance(getattr(made, "traits", None), Traits):
        raise NotAnEngine("its traits are no Traits")
    if not callable(getattr(made, "plan", None)):
        raise NotAnEngine("it has no plan")
    return cast(Engine, made)


def _called(package: Distribution | None) -> str:
    """Without METADATA its name is None, or nothing that can be asked for, by the version of Python."""
    try:
        name = package.name if package else ""
    except Exception:  # noqa: BLE001 (as above)
        name = ""
    return f"package {name}" if name else "an unknown package"
