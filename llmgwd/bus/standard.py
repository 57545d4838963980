"""The interfaces that objects have besides their own: Introspectable, Peer, Properties, ObjectManager."""

import functools
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Protocol

from llmgwd.bus import errors
from llmgwd.bus.calls import Interface
from llmgwd.bus.declarations import Arguments, Method, arguments
from llmgwd.bus.errors import Unserved
from llmgwd.bus.introspection import interface_xml, node_xml
from llmgwd.bus.library import Variant

INTROSPECTABLE = "org.freedesktop.DBus.Introspectable"
OBJECT_MANAGER = "org.freedesktop.DBus.ObjectManager"
PEER = "org.freedesktop.DBus.Peer"
PROPERTIES = "org.freedesktop.DBus.Properties"

Values = dict[str, Variant]


class Tree(Protocol):
    """What the functions here need of `Objects`."""

    @property
    def root(self) -> str:
        """The path of the ObjectManager."""

    def paths(self) -> Iterable[str]:
        """The paths of all objects."""

    def interfaces(self, path: str) -> tuple[Interface, ...]:
        """What is served at `path`."""


def children(tree: Tree, path: str) -> list[str]:
    """The names of the nodes right below `path`, sorted."""
    prefix = path.rstrip("/") + "/"
    return sorted(
        {other[len(prefix) :].partition("/")[0] for other in tree.paths() if other.startswith(prefix)} - {""}
    )


def standard_at(tree: Tree, path: str) -> tuple[str, ...]:
    """Which of the interfaces of this file there are at `path`."""
    if path == tree.root:
        return (PEER, INTROSPECTABLE, PROPERTIES, OBJECT_MANAGER)
    if tree.interfaces(path):
        return (PEER, INTROSPECTABLE, PROPERTIES)
    if children(tree, path):
        return (PEER, INTROSPECTABLE)
    return (PEER,)


def introspect(tree: Tree, path: str) -> str:
    own = (interface.xml() for interface in tree.interfaces(path))
    return node_xml([*map(_standard_xml, standard_at(tree, path)), *own], children(tree, path))


def ping(tree: Tree, path: str) -> None:
    """Answers; that is all."""


def machine_id(tree: Tree, path: str) -> str:
    return Path("/etc/machine-id").read_text(encoding="ascii").strip()


def get(tree: Tree, path: str, interface: str, name: str) -> Variant:
    return _with_property(tree, path, interface, name).properties(name)[name]


def get_all(tree: Tree, path: str, interface: str) -> Values:
    """Of all interfaces where none is named, as sd-bus does."""
    values: Values = {}
    for one in _named(tree, path, interface):
        values |= one.properties()
    return values


def set_property(tree: Tree, path: str, interface: str, name: str, value: Variant) -> None:
    """Refuses: no property here can be written."""
    owner = _with_property(tree, path, interface, name)
    raise Unserved(errors.PROPERTY_READ_ONLY, f"property {owner.name}.{name} is read-only")


def managed_objects(tree: Tree, path: str) -> dict[str, dict[str, Values]]:
    return {
        other: {one.name: one.properties() for one in tree.interfaces(other)}
        for other in tree.paths()
        if other != tree.root
    }


def _named(tree: Tree, path: str, interface: str) -> list[Interface]:
    found = [one for one in tree.interfaces(path) if interface in {"", one.name}]
    if not found and interface not in standard_at(tree, path):
        raise Unserved(errors.UNKNOWN_INTERFACE, f"no interface {interface} at {path}")
    return found


def _with_property(tree: Tree, path: str, interface: str, name: str) -> Interface:
    for one in _named(tree, path, interface):
        if name in one.declared_properties:
            return one
    raise Unserved(errors.UNKNOWN_PROPERTY, f"no property {name} of {interface or 'any interface'} at {path}")


def _methods(*rows: tuple[str, Callable[..., object], str, str]) -> dict[str, Method]:
    return {row[0]: Method(row[0], arguments(row[2]), arguments(row[3]), "", row[1]) for row in rows}


METHODS: Mapping[str, Mapping[str, Method]] = {
    PEER: _methods(
        ("Ping", ping, "", ""),
        ("GetMachineId", machine_id, "", "s machine_uuid"),
    ),
    INTROSPECTABLE: _methods(
        ("Introspect", introspect, "", "s xml_data"),
    ),
    PROPERTIES: _methods(
        ("Get", get, "s interface_name, s property_name", "v value"),
        ("GetAll", get_all, "s interface_name", "a{sv} properties"),
        ("Set", set_property, "s interface_name, s property_name, v value", ""),
    ),
    OBJECT_MANAGER: _methods(
        ("GetManagedObjects", managed_objects, "", "a{oa{sa{sv}}} objects"),
    ),
}  # fmt: skip
"""By interface and member; a function takes the tree, the path and the arguments, and does not wait."""

_SIGNALS: Mapping[str, Mapping[str, Arguments]] = {
    PROPERTIES: {
        "PropertiesChanged": arguments(
            "s interface_name, a{sv} changed_properties, as invalidated_properties"
        ),
    },
    OBJECT_MANAGER: {
        "InterfacesAdded": arguments("o object, a{sa{sv}} interfaces"),
        "InterfacesRemoved": arguments("o object, as interfaces"),
    },
}


@functools.cache
def _standard_xml(name: str) -> str:
    return interface_xml(name, METHODS[name].values(), _SIGNALS.get(name, {}), {})
