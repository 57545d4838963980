"""Introspection data as values that can be compared: of each member its shape, and its comment."""

import textwrap
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

DBUS = Path(__file__).resolve().parents[2] / "dbus"
MANAGER = "org.llmgw.Node1.Manager"
SHARD = "org.llmgw.Node1.Shard"


@dataclass(frozen=True)
class Member:
    """A method, signal or property.

    `arguments`: direction, name and signature of each; of a property access and signature. `comment` is what
    stands right before it, and makes no difference when members are compared.
    """

    kind: str
    name: str
    arguments: tuple[tuple[str, ...], ...]
    annotations: dict[str, str]
    comment: str = field(default="", compare=False)


def documented(interface: str) -> ET.Element:
    """The `<node>` of the interface's file in dbus/, comments included."""
    return with_comments((DBUS / f"{interface}.xml").read_text(encoding="utf-8"))


def with_comments(text: str) -> ET.Element:
    return ET.fromstring(text, parser=ET.XMLParser(target=ET.TreeBuilder(insert_comments=True)))  # noqa: S314


def parsed(text: str) -> ET.Element:
    """What the daemon says, an `<interface>` or a whole `<node>`, below one element."""
    root = ET.fromstring(text)  # noqa: S314  (our own)
    if root.tag == "node":
        return root
    node = ET.Element("node")
    node.append(root)
    return node


def comment_of_interface(node: ET.Element, interface: str) -> str:
    return next(comment for one, comment in _with_comments(node) if one.get("name") == interface)


def members(node: ET.Element, interface: str) -> list[Member]:
    """Of one interface, sorted by kind and name; two of the same name both appear."""
    found = node.find(f"interface[@name='{interface}']")
    assert found is not None, f"{interface} is not there"
    return sorted(
        (_member(element, comment) for element, comment in _with_comments(found)),
        key=lambda member: (member.kind, member.name),
    )


def _member(element: ET.Element, comment: str) -> Member:
    if element.tag == "property":
        arguments: tuple[tuple[str, ...], ...] = ((element.attrib["access"], element.attrib["type"]),)
    else:
        arguments = tuple(
            (argument.get("direction", ""), argument.attrib["name"], argument.attrib["type"])
            for argument in element.iter("arg")
        )
    annotations = {note.attrib["name"]: note.attrib["value"] for note in element.iter("annotation")}
    return Member(element.tag, element.attrib["name"], arguments, annotations, comment)


def _with_comments(parent: ET.Element) -> Iterator[tuple[ET.Element, str]]:
    """Each element below, and the comment right before it; empty where something else stands there."""
    comment = ""
    for child in parent:
        if callable(child.tag):  # a comment: what made it stands for a name
            comment = textwrap.dedent(child.text or "").strip()
        else:
            yield child, comment
            comment = ""
