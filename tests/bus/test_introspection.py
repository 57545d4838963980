"""What a service tells about itself, read by others."""

import asyncio
import json
import xml.etree.ElementTree as ET

import pytest

from llmgwd.bus.connection import Connection
from tests.bus.example import Example, Manager, Shard
from tests.bus.private_bus import PrivateBus

INTROSPECT = ("org.freedesktop.DBus.Introspectable", "Introspect")
Elements = list[tuple[object, ...]]


async def introspect(client: Connection, path: str) -> ET.Element:
    [xml] = await client.call(Example.NAME, path, *INTROSPECT)
    return ET.fromstring(xml)  # noqa: S314 our own


def read(element: ET.Element) -> Elements:
    """Tag, attributes and children, all the way down."""
    return [(child.tag, *child.attrib.values(), *read(child)) for child in element]


EMITS = "org.freedesktop.DBus.Property.EmitsChangedSignal"
MANAGER: Elements = [
    (
        "method",
        "Echo",
        ("arg", "text", "s", "in"),
        ("arg", "options", "a{sv}", "in"),
        ("arg", "text", "s", "out"),
        ("arg", "options", "a{sv}", "out"),
    ),
    ("method", "Hold", ("arg", "text", "s", "out")),
    ("method", "Refuse", ("arg", "text", "s", "in")),
    ("method", "Break"),
    ("method", "Vanish"),
    ("method", "Give", ("arg", "what", "s", "in"), ("arg", "texts", "as", "out")),
    ("method", "Command"),
    ("signal", "StateChanged", ("arg", "id", "s"), ("arg", "reason", "s")),
    ("signal", "Nothing"),
    ("property", "Version", "s", "read", ("annotation", EMITS, "const")),
    ("property", "Gpus", "aa{sv}", "read"),
    ("property", "Load", "d", "read", ("annotation", EMITS, "invalidates")),
    ("property", "Uptime", "t", "read", ("annotation", EMITS, "false")),
]


def test_the_xml_of_an_interface_is_its_declarations() -> None:
    element = ET.fromstring(Manager.xml())  # noqa: S314 our own
    assert (element.tag, element.attrib) == ("interface", {"name": "org.example.Node1.Manager"})
    assert read(element) == MANAGER


async def test_an_object_tells_its_interfaces_and_its_children(example: Example, client: Connection) -> None:
    example.objects.add(f"{Example.ROOT}/shard/a", Shard("a"))
    example.objects.add(f"{Example.ROOT}/shard/a_2fb", Shard("a/b"))
    found = await introspect(client, Example.ROOT)
    assert [(child.tag, child.attrib["name"]) for child in found] == [
        ("interface", "org.freedesktop.DBus.Peer"),
        ("interface", "org.freedesktop.DBus.Introspectable"),
        ("interface", "org.freedesktop.DBus.Properties"),
        ("interface", "org.freedesktop.DBus.ObjectManager"),
        ("interface", "org.example.Node1.Manager"),
        ("node", "shard"),
    ]
    assert read(found[4]) == MANAGER
    assert [child.attrib["name"] for child in await introspect(client, f"{Example.ROOT}/shard/a")] == [
        "org.freedesktop.DBus.Peer",
        "org.freedesktop.DBus.Introspectable",
        "org.freedesktop.DBus.Properties",
        "org.example.Node1.Shard",
    ]


@pytest.mark.parametrize(
    ("path", "children"),
    [
        ("/", ["org"]),
        ("/org", ["example"]),
        ("/org/example", ["Node1"]),
        ("/org/example/Node1/shard", ["a", "a_2fb"]),
    ],
)
async def test_a_path_between_tells_its_children(
    example: Example, client: Connection, path: str, children: list[str]
) -> None:
    example.objects.add(f"{Example.ROOT}/shard/a_2fb", Shard("a/b"))
    example.objects.add(f"{Example.ROOT}/shard/a", Shard("a"))
    nodes = [child for child in await introspect(client, path) if child.tag == "node"]
    assert [node.attrib["name"] for node in nodes] == children


async def busctl(bus: PrivateBus, *arguments: str) -> str:
    process = await asyncio.create_subprocess_exec(
        "busctl",
        f"--address={bus.address}",
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    return output.decode()


async def test_busctl_shows_the_tree(private_bus: PrivateBus, example: Example) -> None:
    example.objects.add(f"{Example.ROOT}/shard/a_2fb", Shard("a/b"))
    assert await busctl(private_bus, "tree", "--list", Example.NAME) == (
        "/\n/org\n/org/example\n/org/example/Node1\n/org/example/Node1/shard\n/org/example/Node1/shard/a_2fb\n"
    )


async def test_busctl_shows_an_object(private_bus: PrivateBus, example: Example) -> None:
    shown = await busctl(private_bus, "introspect", Example.NAME, Example.ROOT, Manager.name)
    assert [line.split() for line in shown.splitlines()] == [
        ["NAME", "TYPE", "SIGNATURE", "RESULT/VALUE", "FLAGS"],
        [".Break", "method", "-", "-", "-"],
        [".Command", "method", "-", "-", "-"],
        [".Echo", "method", "sa{sv}", "sa{sv}", "-"],
        [".Give", "method", "s", "as", "-"],
        [".Hold", "method", "-", "s", "-"],
        [".Refuse", "method", "s", "-", "-"],
        [".Vanish", "method", "-", "-", "-"],
        [".Gpus", "property", "aa{sv}", "1", "1", '"index"', "u", "0", "emits-change"],
        [".Load", "property", "d", "0.5", "emits-invalidation"],
        [".Uptime", "property", "t", "17", "-"],
        [".Version", "property", "s", '"1.2"', "const"],
        [".Nothing", "signal", "-", "-", "-"],
        [".StateChanged", "signal", "ss", "-", "-"],
    ]


async def test_busctl_calls_and_reads(private_bus: PrivateBus, example: Example) -> None:
    manager = (Example.NAME, Example.ROOT, Manager.name)
    echo = ("call", "--", *manager, "Echo", "sa{sv}", "hi", "1", "args", "as", "2", "-m", "x")
    assert [
        await busctl(private_bus, "get-property", *manager, "Version", "Load"),
        await busctl(private_bus, *echo),
        await busctl(private_bus, "call", *manager, "Refuse", "s", "no"),
        await busctl(private_bus, "call", *manager, "Break"),
        await busctl(private_bus, "call", *manager, "Echo", "s", "hi"),
        json.loads(await busctl(private_bus, "-j", "get-property", *manager, "Uptime")),
    ] == [
        's "1.2"\nd 0.5\n',
        'sa{sv} "hi" 1 "args" as 2 "-m" "x"\n',
        "Call failed: Refused: no\n",
        "Call failed: Internal: org.example.Node1.Manager.Break failed, see the journal\n",
        "Call failed: InvalidArgs: Echo takes 'sa{sv}', not 's'\n",
        {"type": "t", "data": 17},
    ]
