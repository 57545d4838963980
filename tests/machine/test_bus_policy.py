"""The bus policy that ships, asked by root and by others on a real bus with a stand-in for the daemon."""

import json
from collections.abc import Iterator

import pytest

from tests.machine.machine import Machine

BUS = ("org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus")
NODE = ("org.llmgw.Node1", "/org/llmgw/Node1")
DO_NOT_QUEUE = "4"

# Owns the name and answers everything with an empty reply.
STAND_IN = """
import asyncio
from dbus_next import BusType, Message, MessageType
from dbus_next.aio import MessageBus

async def main():
    bus = await MessageBus(bus_type=BusType.SYSTEM).connect()
    bus.add_message_handler(
        lambda call: Message.new_method_return(call) if call.message_type == MessageType.METHOD_CALL else None
    )
    await bus.request_name("org.llmgw.Node1")
    print("owned", flush=True)
    await bus.wait_for_disconnect()

asyncio.run(main())
"""

CALLS = {
    "change": (*NODE, "org.llmgw.Node1.Manager", "StopAll", "a{sv}", "0"),
    "read": (*NODE, "org.freedesktop.DBus.Properties", "GetAll", "s", "org.llmgw.Node1.Manager"),
    "introspect": (*NODE, "org.freedesktop.DBus.Introspectable", "Introspect"),
    "no interface of ours": (*NODE, "org.freedesktop.DBus.Peer", "Ping"),
}


@pytest.fixture(scope="module")
def node() -> Iterator[Machine]:
    with Machine("policy") as node, node.popen(["/usr/bin/python3", "-c", STAND_IN]) as stand_in:
        assert stand_in.stdout is not None
        assert stand_in.stdout.readline() == "owned\n"
        yield node


def call(node: Machine, user: str, *arguments: str) -> str:
    result = node.run(["busctl", "call", "--json=short", "--", *arguments], user=user, check=False)
    return result.stderr.strip() or result.stdout.strip()


@pytest.mark.parametrize("what", CALLS)
def test_root_is_let_through(node: Machine, what: str) -> None:
    assert call(node, "root", *CALLS[what]) == ""


@pytest.mark.parametrize("user", ["llmgw", "nobody"])
@pytest.mark.parametrize("what", CALLS)
def test_others_are_refused_by_the_bus_itself(node: Machine, what: str, user: str) -> None:
    assert call(node, user, *CALLS[what]) == "Call failed: Access denied"


@pytest.mark.parametrize("user", ["llmgw", "nobody"])
def test_others_cannot_take_the_name(node: Machine, user: str) -> None:
    said = call(node, user, *BUS, "RequestName", "su", NODE[0], DO_NOT_QUEUE)
    assert said == "Call failed: Access denied"


def test_root_asks_for_the_name_and_hears_that_it_is_taken(node: Machine) -> None:
    exists = 3  # DBUS_REQUEST_NAME_REPLY_EXISTS
    answer = json.loads(call(node, "root", *BUS, "RequestName", "su", NODE[0], DO_NOT_QUEUE))
    assert answer == {"type": "u", "data": [exists]}


def test_the_bus_knows_which_unit_to_start_for_the_name(node: Machine) -> None:
    answer = json.loads(call(node, "root", *BUS, "ListActivatableNames"))
    assert NODE[0] in answer["data"][0]
