"""Plain values as the arguments of a call to the daemon.

What does not fit its key's signature is sent as what it is: refusing it, by name, is the daemon's part.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from llmgwd.bus.library import Variant
from llmgwd.model.errors import InvalidSpec
from llmgwd.model.wording import shown

_Check = Callable[[object], bool]


def text(where: str, value: str) -> str:
    """`value`, if a message can carry it; raises InvalidSpec, which names `where`.

    The bus hangs up on whoever sends a NUL; a lone surrogate is what Python makes of bytes that are no UTF-8.
    """
    if "\0" in value or any("\ud800" <= character <= "\udfff" for character in value):
        raise InvalidSpec(f"{where}: got {value!r}, takes UTF-8 without NUL")
    return value


def dictionary(values: Mapping[str, object], signatures: Mapping[str, str]) -> dict[str, Variant]:
    """An a{sv}. Raises InvalidSpec, which names the key, for what no message can carry."""
    return {
        text("a key", key): _variant(key, value, signatures.get(key, "")) for key, value in values.items()
    }


def _variant(where: str, value: object, signature: str) -> Variant:
    if signature not in _FITS or not _FITS[signature](value):
        signature = _natural(where, value)
    return Variant(signature, _body(where, value, signature))


def _body(where: str, value: Any, signature: str) -> Any:  # noqa: PLR0911  (a case for each signature)
    match signature:
        case "s":
            return text(where, value)
        case "d":
            return float(value)
        case "as":
            return [text(where, item) for item in value]
        case "a{ss}":
            return {text(where, key): text(where, item) for key, item in value.items()}
        case "a{sv}":
            return {text(where, key): _variant(f"{where}.{key}", item, "") for key, item in value.items()}
        case "aa{sv}":
            return [_body(f"{where}[{at}]", item, "a{sv}") for at, item in enumerate(value)]
        case "av":
            return [_variant(f"{where}[{at}]", item, "") for at, item in enumerate(value)]
    return value


def _natural(where: str, value: object) -> str:
    """The signature that loses nothing of the value."""
    for signature in ("b", "x", "t", "d", "s", "as", "aa{sv}", "av", "a{sv}"):
        if _FITS[signature](value):
            return signature
    raise InvalidSpec(f"{where}: got {shown(value)}, which no message can carry")


def _whole(low: int, high: int) -> _Check:
    return lambda value: isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def _list_of(check: _Check) -> _Check:
    return lambda value: isinstance(value, list | tuple) and all(map(check, value))


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_table(value: object) -> bool:
    return isinstance(value, Mapping) and all(map(_is_text, value))


_EXACT_IN_A_DOUBLE: Final = _whole(-(1 << 53), 1 << 53)
_FITS: Final[Mapping[str, _Check]] = {
    "b": lambda value: isinstance(value, bool),
    "u": _whole(0, (1 << 32) - 1),
    "x": _whole(-(1 << 63), (1 << 63) - 1),
    "t": _whole(0, (1 << 64) - 1),
    "d": lambda value: isinstance(value, float) or _EXACT_IN_A_DOUBLE(value),
    "s": _is_text,
    "as": _list_of(_is_text),
    "a{ss}": lambda value: isinstance(value, Mapping) and all(map(_is_text, [*value, *value.values()])),
    "a{sv}": _is_table,
    "aa{sv}": _list_of(_is_table),
    "av": _list_of(lambda value: True),
}
