"""Plain values in the arguments of a call: as the key says, else as what they are, or refused by name."""

import math
from typing import Any

import pytest

from llmgwd.bus.values import plain
from llmgwd.client.values import dictionary
from llmgwd.model.errors import InvalidSpec
from llmgwd.model.spec import KEYS
from tests.fakes.manager import tagged


def test_a_value_travels_as_its_key_says_and_comes_back() -> None:
    sidecars = [{"name": "head", "command": ["/bin/true"], "waits_for_leader": True}]
    values: dict[str, object] = {
        "model": "ü", "nodes": 2, "gpus": ("0", "1"), "environment": {"A": ""}, "sidecars": sidecars,
        "ready_timeout_s": 1, "memory_max": 1 << 63, "verify_listener": False,
    }  # fmt: skip

    sent = dictionary(values, KEYS)

    assert {key: variant.signature for key, variant in sent.items()} == {key: KEYS[key] for key in values}
    assert plain(sent) == values | {"gpus": ["0", "1"]}


@pytest.mark.parametrize(
    ("value", "sent"),
    [
        (-1, ["x", -1]),
        (1 << 63, ["t", 1 << 63]),
        (1.5, ["d", 1.5]),
        (math.inf, ["d", math.inf]),
        (True, ["b", True]),
        ([], ["as", []]),
        ([{}], ["aa{sv}", [{}]]),
        ([1, "a"], ["av", [["x", 1], ["s", "a"]]]),
        ({"a": [1.5]}, ["a{sv}", {"a": ["av", [["d", 1.5]]]}]),
    ],
)
def test_a_value_of_no_key_travels_as_what_it_is(value: object, sent: object) -> None:
    assert tagged(dictionary({"x": value}, {})) == {"x": sent}


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"model": "a\0b"}, "model: got 'a\\x00b', takes UTF-8 without NUL"),
        ({"environment": {"A": "\udcff"}}, "environment: got '\\udcff', takes UTF-8 without NUL"),
        ({"sidecars": [{"name": "\0"}]}, "sidecars[0].name: got '\\x00', takes UTF-8 without NUL"),
        ({"a\0": 1}, "a key: got 'a\\x00', takes UTF-8 without NUL"),
        ({"x": 1 << 64}, "x: got a number beyond 64 bits, which no message can carry"),
        ({"x": None}, "x: got nothing, which no message can carry"),
        ({"x": {1: 2}}, "x: got a table, which no message can carry"),
    ],
)
def test_what_no_message_can_carry_is_named(values: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidSpec) as refused:
        dictionary(values, KEYS)

    assert refused.value.text == words
