"""Python values as they go into messages: what D-Bus can't carry is refused before the bus hangs up on it."""

from collections.abc import Iterable, Mapping
from typing import Any

from llmgwd.bus.library import Variant


def body(values: Iterable[object]) -> list[Any]:
    """The arguments of a message: tuples become lists, mappings dicts, subclasses of str plain ones.

    Raises ValueError for a NUL in a text, also inside of Variants: dbus-daemon closes a connection that
    sends one, and neither library looks.
    """
    return [_settled(value) for value in values]


def plain(value: Any) -> Any:
    """The value without its Variants, all the way down."""
    if isinstance(value, Variant):
        return plain(value.value)
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value


def wrap(signature: str, value: object) -> Variant:
    """The value of a property in a Variant of its declared signature; raises where it does not fit."""
    return Variant(signature, _settled(value))


def _settled(value: Any) -> Any:
    kind = type(value)
    if kind is Variant:
        inner = value.value
        if type(inner) is not str:
            _settled(inner)
        elif "\0" in inner:
            raise ValueError(f"D-Bus carries no NUL in a text: {inner!r}")
    elif kind is str:
        if "\0" in value:
            raise ValueError(f"D-Bus carries no NUL in a text: {value!r}")
    elif kind is list or kind is tuple:
        return [_settled(item) for item in value]
    elif kind is dict:
        return {_settled(key): _settled(item) for key, item in value.items()}
    elif isinstance(value, str):
        return _settled(str(value))
    elif isinstance(value, Mapping):
        return _settled(dict(value))
    return value
