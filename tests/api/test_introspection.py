"""The interfaces as they are documented in dbus/ are the interfaces as they are declared in code."""

import re
from collections.abc import Mapping

import pytest

from llmgwd.api import manager, wire
from llmgwd.api.manager import Manager
from llmgwd.api.shard import ShardObject
from llmgwd.bus.calls import Interface
from llmgwd.model.errors import BY_NAME
from llmgwd.model.spec import KEYS
from tests.api.introspection import (
    MANAGER,
    SHARD,
    Member,
    comment_of_interface,
    documented,
    members,
    parsed,
    with_comments,
)

INTERFACES: Mapping[str, type[Interface]] = {MANAGER: Manager, SHARD: ShardObject}
DOCUMENTED = {interface: members(documented(interface), interface) for interface in INTERFACES}
MEMBERS = [
    pytest.param(interface, member, id=f"{interface.rpartition('.')[2]}.{member.name}")
    for interface, found in DOCUMENTED.items()
    for member in found
]

# Of each a{sv} the keys and their signatures, or where they are documented.
OPTIONS = dict.fromkeys(wire._STOP_OPTIONS, "d")
SIDECAR = {"name": "s", "command": "as", "waits_for_leader": "b"}
DICTIONARIES: Mapping[tuple[str, str], Mapping[str, str] | str] = {
    (MANAGER, "StartShard"): {**KEYS, **SIDECAR},
    (MANAGER, "PlanShard"): manager._COMMAND,
    (MANAGER, "StopShard"): OPTIONS,
    (MANAGER, "StopAll"): OPTIONS,
    (MANAGER, "ListShards"): SHARD,
    (MANAGER, "GetStatistics"): manager._STATISTICS,
    (MANAGER, "ListOrphans"): manager._ORPHAN,
    (MANAGER, "RdmaDevices"): manager._RDMA,
    (MANAGER, "Gpus"): manager._GPU,
    (SHARD, "Stop"): OPTIONS,
    (SHARD, "Spec"): "StartShard",
}


@pytest.mark.parametrize("interface", INTERFACES)
def test_the_documented_interface_is_the_declared_one(interface: str) -> None:
    declared = members(parsed(INTERFACES[interface].xml()), interface)
    assert DOCUMENTED[interface] == declared


@pytest.mark.parametrize("interface", INTERFACES)
def test_the_interface_itself_is_documented(interface: str) -> None:
    assert comment_of_interface(documented(interface), interface).startswith(f"{interface}: ")


@pytest.mark.parametrize(("interface", "member"), MEMBERS)
def test_no_member_is_undocumented(interface: str, member: Member) -> None:
    assert len(member.comment.split()) >= 3, f"no comment stands before {member.name}"


def test_a_member_without_a_comment_would_be_found() -> None:
    text = '<node><interface name="x.y"><!-- Does. --><method name="A"/><method name="B"/></interface></node>'
    found = members(with_comments(text), "x.y")
    assert [(member.name, member.comment) for member in found] == [("A", "Does."), ("B", "")]


@pytest.mark.parametrize(("interface", "member"), MEMBERS)
def test_every_argument_is_documented(interface: str, member: Member) -> None:
    if member.kind == "property":
        return
    said = re.findall(r"\w+", member.comment)
    assert [name for _, name, _ in member.arguments if name not in said] == []


@pytest.mark.parametrize(("interface", "member"), MEMBERS)
def test_every_dictionary_is_documented_key_by_key(interface: str, member: Member) -> None:
    keys = DICTIONARIES.get((interface, member.name), {})
    assert bool(keys) == any("a{sv}" in argument[-1] for argument in member.arguments)
    if isinstance(keys, str):
        assert keys in member.comment
        return
    rows = {key: rf"\b{key} +{re.escape(signature)}(?![\w{{])" for key, signature in keys.items()}
    assert [key for key, row in rows.items() if not re.search(row, member.comment)] == []


@pytest.mark.parametrize(("interface", "member"), MEMBERS)
def test_every_error_that_is_named_exists(interface: str, member: Member) -> None:
    errors = member.comment.partition("Errors:")[2]
    others = {one.name for found in DOCUMENTED.values() for one in found}
    camel = set(re.findall(r"\b[A-Z][a-z]+[A-Z]\w*", errors))
    assert camel - others - set(BY_NAME) == set()
