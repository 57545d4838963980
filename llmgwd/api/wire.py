"""D-Bus values to plain ones and back, by the signatures that the vocabulary declares."""

from collections.abc import Mapping
from typing import Any

from llmgwd.bus.library import Variant
from llmgwd.bus.values import plain, wrap
from llmgwd.model import checks
from llmgwd.model.spec import KEYS, ShardSpec, spec_values
from llmgwd.model.wording import check_known

_STOP_OPTIONS = ("drain_seconds", "timeout_seconds")


def spec_from_dbus(spec: Mapping[str, Variant]) -> dict[str, object]:
    """Plain values, unchecked: model/spec.py refuses what is wrong, by name."""
    return {key: plain(value) for key, value in spec.items()}


def spec_to_dbus(spec: ShardSpec) -> dict[str, Variant]:
    """Every key that says something; of the environment the names alone."""
    values = spec_values(spec) | {"environment": sorted(spec.environment)}
    signatures = {**KEYS, "environment": "as"}
    return {key: _variant(signatures[key], value) for key, value in values.items()}


def dictionary(signatures: Mapping[str, str], values: Mapping[str, object]) -> dict[str, Variant]:
    """`a{sv}` of the values that are there."""
    return {key: wrap(signatures[key], value) for key, value in values.items()}


def stop_options(options: Mapping[str, Variant]) -> tuple[float | None, float | None]:
    """Drain and limit in seconds, `None` where they are not given. Raises InvalidSpec, naming the option."""
    check_known("", options, _STOP_OPTIONS)
    drain, limit = (
        checks.seconds(key, plain(options[key])) if key in options else None for key in _STOP_OPTIONS
    )
    return drain, limit


def _variant(signature: str, value: Any) -> Variant:
    if signature == "aa{sv}":
        return Variant(signature, [_table(entry) for entry in value])
    if signature == "d":
        return Variant(signature, float(value))
    return wrap(signature, value)


def _table(entry: Mapping[str, Any]) -> dict[str, Variant]:
    signatures: dict[type, str] = {str: "s", bool: "b", list: "as"}
    return {key: Variant(signatures[type(value)], value) for key, value in entry.items()}
