"""Addresses: what is read as one, and what leads to no other machine."""

from ipaddress import ip_address

import pytest

from llmgwd.model.addresses import host_and_port, is_host, is_ipv6, is_shorthand, is_unusable, parsed


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("FD00:0:0::1", "fd00::1"),
        ("fe80::1%eth0", "fe80::1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("::ffff:a00:1", "10.0.0.1"),
    ],
)
def test_an_address_is_compared_without_its_zone_and_in_its_own_form(text: str, known: str) -> None:
    assert parsed(text) == ip_address(known)


@pytest.mark.parametrize(
    "text",
    ["", "node-1", "127.1", "0177.0.0.1", "10.0.0.1%eth0", "10.0.0.1:80", "1:2:3", "::%", "fe80::1%", ":"],
)
def test_what_is_no_address_may_be_a_name(text: str) -> None:
    assert parsed(text) is None


def test_one_is_ipv6_by_its_colons() -> None:
    addresses = ("fd00::1", "fe80::1%eth0", "::ffff:10.0.0.1", "10.0.0.1", "node-1")
    assert [is_ipv6(address) for address in addresses] == [True, True, True, False, False]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "localhost",
        "LocalHost",
        "localhost.",
        "node.localhost",
        "node.localhost.",
        "ip6-localhost",
        "IP6-loopback.",
        "127.0.0.1",
        "127.9.9.9",
        "::1",
        "0:0:0:0:0:0:0:1",
        "::1%lo",
        "::ffff:127.0.0.1",
        "0.0.0.0",
        "::",
        "::ffff:0.0.0.0",
    ],
)
def test_what_leads_to_no_other_machine_is_unusable(text: str) -> None:
    assert is_unusable(text)


@pytest.mark.parametrize(
    "text",
    [
        "10.0.0.1",
        "fd00::1",
        "fe80::1%eth0",
        "::ffff:10.0.0.1",
        "node-1",
        "node-1.",
        "localhost.example",
        "mylocalhost",
        "localhost-1",
        "ip6-localhost.example",
    ],
)
def test_what_may_lead_to_another_machine_is_usable(text: str) -> None:
    assert not is_unusable(text)


@pytest.mark.parametrize("text", ["10.0.0.1", "node-1", "node_1.example.", "fd00::1", "fe80::1%bond0.12"])
def test_an_address_or_a_name_is_a_host(text: str) -> None:
    assert is_host(text)


@pytest.mark.parametrize("text", ["", ":", "a:b", "1:2:3", "10.0.0.1:80", "::1%a/b", "[::1]", "-x", "a b"])
def test_what_is_neither_is_no_host(text: str) -> None:
    assert not is_host(text)


@pytest.mark.parametrize("text", ["127.1", "0x7f000001", "0", "0177.0.0.1", "127.0.0.1."])
def test_shorthand_is_what_only_some_take_for_an_address(text: str) -> None:
    assert is_shorthand(text)


@pytest.mark.parametrize("text", ["127.0.0.1", "::1", "1node", "0x1.example", "1..2"])
def test_what_all_read_alike_is_no_shorthand(text: str) -> None:
    assert not is_shorthand(text)


@pytest.mark.parametrize(
    ("peer", "parts"),
    [
        ("10.0.0.2", ("10.0.0.2", "")),
        ("node-2:50052", ("node-2", "50052")),
        ("fd00::2", ("fd00::2", "")),
        ("[fd00::2]", ("fd00::2", "")),
        ("[fe80::2%eth0]:1", ("fe80::2%eth0", "1")),
        ("[node-2]:1", ("[node-2]:1", "")),
        ("node-2:", ("node-2:", "")),
        ("", ("", "")),
    ],
)
def test_a_peer_is_a_host_and_a_port(peer: str, parts: tuple[str, str]) -> None:
    assert host_and_port(peer) == parts
