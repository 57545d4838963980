"""The address by which other nodes reach this one: where it comes late, changes, or is no use to them."""

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests.machine.machine import Machine
from tests.machine.node import CONFIG, CONFIGURED, DAEMON, Node, Refused, spelled

FIRST = "10.231.7.1"
SECOND = "10.231.8.1"
RANK = {
    "engine": "llama-cpp",
    "model": "/m.gguf",
    "nodes": 2,
    "rank": 1,
    "leader_address": "10.231.7.9",
    "leader_port": 5005,
    "executable": "/usr/bin/python3",
}
REFUSAL = (
    "InvalidSpec: nodes: got 2, which needs an address by which the other nodes reach this one, "
    "and it has {}: set management_address in [agent] of its configuration"
)
UNREADABLE = (
    "the interfaces of this node cannot be read: "
    "'utf-8' codec can't decode byte 0xff in position 1: invalid start byte"
)


@pytest.fixture(scope="module")
def late() -> Iterator[Node]:
    """A node that has no address yet, but the loopback one."""
    with Machine("late", enable=[DAEMON], files={CONFIG: CONFIGURED}) as machine:
        machine.run(["ip", "link", "add", "name", "fabric0", "type", "veth", "peer", "name", "other0"])
        for link in ("fabric0", "other0"):
            machine.run(["ip", "link", "set", link, "up"])
        yield Node(machine)


def test_an_address_that_comes_after_the_daemon_is_taken_without_a_reload(late: Node) -> None:
    assert shown(late, "none") == ("", "")
    assert refusal(late) == REFUSAL.format("none")
    assert REFUSAL.format("none") in planned(late)["warnings"]
    address(late, "add", FIRST)
    late.machine.run(["ip", "route", "add", "default", "dev", "fabric0", "src", FIRST])
    assert shown(late, FIRST) == (FIRST, "fabric0")
    assert FIRST in planned(late)["argv"]
    assert not [text for text in planned(late)["warnings"] if "management address" in text]


def test_one_that_changes_is_followed(late: Node) -> None:
    address(late, "add", SECOND)
    late.machine.run(["ip", "route", "replace", "default", "dev", "fabric0", "src", SECOND])
    assert shown(late, SECOND) == (SECOND, "fabric0")
    assert SECOND in planned(late)["argv"]


def test_one_that_goes_is_missed(late: Node) -> None:
    late.machine.run(["ip", "link", "set", "fabric0", "down"])
    assert shown(late, "none") == ("", "")
    said = [entry["MESSAGE"] for entry in late.log() if "no management address" in entry["MESSAGE"]]
    assert len(said) == 2  # at the start, and now


def test_a_loopback_address_serves_one_node_and_no_more(late: Node) -> None:
    path = late.machine.path("/etc/llmgwd/llmgwd.toml.d/address.toml")
    path.write_text('[agent]\nmanagement_address = "127.0.0.1"\n')
    late.machine.run(["llmgwctl", "reload"])
    try:
        assert refusal(late) == REFUSAL.format("127.0.0.1")
        assert "127.0.0.1 is none by which other nodes reach this one" in shown_to_people(late)
    finally:
        path.unlink()
        late.machine.run(["llmgwctl", "reload"])


def test_a_name_of_an_interface_that_nobody_can_read_keeps_no_daemon_from_its_work(late: Node) -> None:
    late.machine.run(["ip", "link", "add", os.fsdecode(b"x\xffy"), "type", "veth", "peer", "name", "plain0"])
    try:
        late.machine.wait_for("it is told", lambda: UNREADABLE in about(late)["warnings"])
        late.systemctl("restart", DAEMON)
        assert UNREADABLE in about(late)["warnings"]
    finally:
        late.machine.run(["ip", "link", "delete", "plain0"])
    late.machine.wait_for("it is over", lambda: UNREADABLE not in about(late)["warnings"])
    said = [entry["MESSAGE"] for entry in late.log() if UNREADABLE in entry["MESSAGE"]]
    assert said == [f"this node: {UNREADABLE}"] * 2  # of the daemon of before, and of this one


def shown(node: Node, address: str) -> tuple[str, str]:
    """Address and interface, once the address is the one that is expected."""
    expected = "" if address == "none" else address
    node.machine.wait_for(f"the address is {address}", lambda: about(node)["management_address"] == expected)
    return about(node)["management_address"], about(node)["management_interface"]


def about(node: Node) -> Any:
    return json.loads(node.machine.run(["llmgwctl", "node", "--json"]).stdout)


def shown_to_people(node: Node) -> str:
    return " ".join(node.machine.run(["llmgwctl", "node"]).stdout.split())


def planned(node: Node) -> Any:
    (command,) = node.call("PlanShard", *spelled("a", **RANK))
    return command


def refusal(node: Node) -> str:
    with pytest.raises(Refused) as refused:
        node.start("a", **RANK)
    return str(refused.value)


def address(node: Node, verb: str, address: str) -> None:
    node.machine.run(["ip", "address", verb, f"{address}/24", "dev", "fabric0"])
