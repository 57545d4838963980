"""D-Bus values to plain ones and back."""

import math
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from llmgwd.api import wire
from llmgwd.bus.library import SignatureTree, Variant
from llmgwd.bus.values import plain
from llmgwd.model.errors import InvalidSpec
from llmgwd.model.spec import KEYS, ShardSpec, parse_spec
from tests.model.specs import COMMAND, DEFAULTS, valid_values

# Few, and however long each takes on a busy machine: tests/model looks at specs more closely.
NO_HURRY = settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def specs(draw: st.DrawFn) -> ShardSpec:
    values = draw(valid_values())
    return parse_spec("a", values, DEFAULTS[str(values["engine"])])


def command(**values: object) -> ShardSpec:
    return parse_spec("a", {"engine": "command", "command": ["/bin/true"], **values}, COMMAND)


def test_a_spec_from_the_bus_is_plain_all_the_way_down() -> None:
    spec = {
        "engine": Variant("s", "command"),
        "command": Variant("as", ["/bin/true", "-m"]),
        "sidecars": Variant("aa{sv}", [{"name": Variant("s", "head"), "command": Variant("as", ["/bin/x"])}]),
        "environment": Variant("a{ss}", {"A": "1"}),
        "port": Variant("q", 8000),
        "ready_timeout_s": Variant("v", Variant("d", 1.5)),
        "colour": Variant("(si)", ["blue", 1]),
    }
    assert wire.spec_from_dbus(spec) == {
        "engine": "command",
        "command": ["/bin/true", "-m"],
        "sidecars": [{"name": "head", "command": ["/bin/x"]}],
        "environment": {"A": "1"},
        "port": 8000,
        "ready_timeout_s": 1.5,
        "colour": ["blue", 1],
    }


@pytest.mark.parametrize("signature", ["y", "n", "q", "i", "u", "x", "t"])
def test_any_integer_will_do_where_a_number_is_meant(signature: str) -> None:
    values = wire.spec_from_dbus({"port": Variant(signature, 80), "stop_timeout_s": Variant(signature, 5)})
    spec = command(**values)
    assert (spec.port, spec.stop_timeout_s) == (80, 5.0)


@NO_HURRY
@given(specs())
def test_a_spec_on_the_bus_is_the_spec_but_for_the_values_of_its_environment(spec: ShardSpec) -> None:
    shown = wire.spec_to_dbus(spec)
    for key, value in shown.items():
        assert value.signature == ("as" if key == "environment" else KEYS[key])
        SignatureTree(value.signature).verify([value.value])
    values = wire.spec_from_dbus(shown)
    names: Any = values.pop("environment")
    assert names == sorted(spec.environment)
    again = parse_spec("a", values | {"environment": dict(spec.environment)}, DEFAULTS[spec.engine])
    assert again == spec


def test_values_of_the_environment_are_never_shown() -> None:
    shown = wire.spec_to_dbus(command(environment={"HF_TOKEN": "secret123", "A": "secret124"}))
    assert shown["environment"] == Variant("as", ["A", "HF_TOKEN"])
    assert "secret" not in repr(plain(Variant("a{sv}", shown)))


def test_no_gpu_at_all_is_shown_and_none_named_is_not() -> None:
    assert "gpus" not in wire.spec_to_dbus(command())
    assert wire.spec_to_dbus(command(gpus=[]))["gpus"] == Variant("as", [])


def test_a_dictionary_has_what_is_there() -> None:
    assert wire.dictionary({"id": "s", "tasks": "t"}, {"tasks": 3}) == {"tasks": Variant("t", 3)}


@pytest.mark.parametrize(
    ("options", "read"),
    [
        ({}, (None, None)),
        ({"drain_seconds": Variant("d", 1.5)}, (1.5, None)),
        ({"timeout_seconds": Variant("u", 0)}, (None, 0.0)),
        ({"timeout_seconds": Variant("d", 2), "drain_seconds": Variant("t", 3)}, (3.0, 2.0)),
    ],
)
def test_the_options_of_a_stop(options: dict[str, Variant], read: tuple[float | None, float | None]) -> None:
    assert wire.stop_options(options) == read


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("drain", Variant("d", 1), "drain: unknown key"),
        ("drain_second", Variant("d", 1), "drain_second: unknown key, did you mean drain_seconds?"),
        ("drain_seconds", Variant("d", -1.0), "drain_seconds: got -1"),
        ("drain_seconds", Variant("d", math.nan), "drain_seconds: got nan, takes 0 to 1000000000 seconds"),
        (
            "timeout_seconds",
            Variant("d", math.inf),
            "timeout_seconds: got inf, takes 0 to 1000000000 seconds",
        ),
        ("timeout_seconds", Variant("s", "5"), "timeout_seconds: got '5', takes 0 to 1000000000 seconds"),
        ("timeout_seconds", Variant("b", True), "timeout_seconds: got true, takes 0 to 1000000000 seconds"),
    ],
)
def test_an_option_that_is_wrong_is_refused_by_name(key: str, value: Variant, text: str) -> None:
    with pytest.raises(InvalidSpec) as refusal:
        wire.stop_options({key: value})
    assert refusal.value.text.startswith(text)
