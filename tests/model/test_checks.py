"""Checks of single values: what an address may be, and in which words one is refused."""

import pytest

from llmgwd.model import checks
from llmgwd.model.errors import InvalidSpec

ADDRESS = "an IP address (without brackets and port) or a host name"
PEER = "an address, which may carry a port (10.0.0.2:50052, [fd00::2]:50052)"
NUMBERS = "an IPv4 address: write it as four numbers"

IPV4_AND_NAMES = ("10.0.0.1", "0.0.0.0", "node-1", "node_1", "1node", "node.example.", "0xa.example", "fd00")
IPV6 = ("::", "fd00::1", "FD00:0::1", "::ffff:10.0.0.1", "fe80::1%eth0", "fe80::1%bond0.12")
NUMERIC = ("127.1", "10.231.7", "2130706433", "0x7f000001", "0177.0.0.1", "0", "1.2.3.4.", "1.2.3.256")
NO_IPV6 = (":", "1:2:3", "a:b", "fd00:::1", "::%", "fe80::1%", "10.0.0.1%eth0", "fe80::1%a%b", "node%eth0")
BRACKETS = ("[::]", "[fd00::1", "fd00::1]", "[node]", "[]")


def refusal_of(check: checks.Check[str], value: object) -> str:
    """Empty where the value is taken as it is."""
    try:
        assert check("x", value) == value
    except InvalidSpec as refusal:
        return refusal.text
    return ""


@pytest.mark.parametrize("value", [*IPV4_AND_NAMES, *IPV6])
def test_an_address_or_a_name_is_taken(value: str) -> None:
    assert refusal_of(checks.address, value) == ""
    assert refusal_of(checks.peer, value) == ""


@pytest.mark.parametrize("value", NUMERIC)
def test_an_address_is_written_as_four_numbers(value: str) -> None:
    assert refusal_of(checks.address, value) == f"x: got '{value}', takes {NUMBERS}"
    assert refusal_of(checks.peer, value) == f"x: got '{value}', takes {NUMBERS}"


@pytest.mark.parametrize("value", [*NO_IPV6, *BRACKETS, "10.0.0.1:80", "10.0.0.1:", "-x", "a b", "", "a\n"])
def test_what_has_a_colon_or_a_zone_is_an_ipv6_address(value: str) -> None:
    text = refusal_of(checks.address, value)
    assert text == f"x: got {value!r}, takes {ADDRESS}"


@pytest.mark.parametrize("host", [*IPV4_AND_NAMES, *map("[{}]".format, IPV6)])
def test_a_peer_may_carry_a_port(host: str) -> None:
    assert [refusal_of(checks.peer, f"{host}:{port}") for port in (1, 50_052, 65_535)] == ["", "", ""]


def test_a_peer_of_ipv6_may_stand_in_brackets_without_a_port() -> None:
    assert refusal_of(checks.peer, "[fd00::2]") == ""


@pytest.mark.parametrize(
    "value", [*NO_IPV6, *BRACKETS[1:], "n:x", "n:", "[::1]:", "[::1]1", "[::1%]:1", "[n]:1"]
)
def test_a_peer_is_an_address_too(value: str) -> None:
    assert refusal_of(checks.peer, value) == f"x: got '{value}', takes {PEER}"


@pytest.mark.parametrize("port", ["0", "65536", "99999"])
def test_the_port_of_a_peer_is_one(port: str) -> None:
    text = f"x: got '10.0.0.2:{port}', takes {PEER} from 1 to 65535"
    assert refusal_of(checks.peer, f"10.0.0.2:{port}") == text


def test_a_long_name_is_looked_through_once() -> None:
    assert refusal_of(checks.address, "0x1." * 1_000 + "z") == ""
