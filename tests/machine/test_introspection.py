"""What a running daemon says about its objects is what dbus/ documents, and what is installed."""

import json
from pathlib import Path

import pytest

from tests.api.introspection import DBUS, MANAGER, SHARD, documented, members, parsed
from tests.machine.conftest import Boot
from tests.machine.machine import Machine

ROOT = "/org/llmgw/Node1"
COMMAND = "[engines.command]\nenabled = true\n"
INTERFACES_DIRECTORY = "/usr/share/dbus-1/interfaces"


@pytest.fixture
def node(boot: Boot) -> Machine:
    """A node with one shard."""
    node = boot(
        enable=["llmgwd.service"],
        files={"/etc/llmgwd/llmgwd.toml.d/command.toml": COMMAND},
    )
    spec = ("2", "engine", "s", "command", "command", "as", "2", "/usr/bin/sleep", "infinity")
    call(node, ROOT, MANAGER, "StartShard", "sa{sv}", "a", *spec)
    return node


def call(node: Machine, path: str, interface: str, *arguments: str) -> list[object]:
    command = ("busctl", "call", "--json=short", "--", "org.llmgw.Node1", path, interface, *arguments)
    said = node.run(command).stdout
    body: list[object] = json.loads(said)["data"] if said.strip() else []
    return body


def introspection(node: Machine, path: str) -> str:
    (text,) = call(node, path, "org.freedesktop.DBus.Introspectable", "Introspect")
    assert isinstance(text, str)
    return text


def test_the_running_interfaces_are_the_documented_ones(node: Machine) -> None:
    running = {
        interface: members(parsed(introspection(node, path)), interface)
        for interface, path in ((MANAGER, ROOT), (SHARD, f"{ROOT}/shard/a"))
    }
    assert running == {interface: members(documented(interface), interface) for interface in running}


def test_the_documented_interfaces_are_installed(node: Machine) -> None:
    names = [path.name for path in sorted(DBUS.glob("*.xml"))]
    laid_down = {name: node.path(f"{INTERFACES_DIRECTORY}/{name}").read_text() for name in names}
    assert laid_down == {name: Path(DBUS, name).read_text() for name in names}
