"""How a refusal names a value, a key and a kind: short, on one line, without what may be a secret."""

from collections.abc import Collection, Mapping
from difflib import get_close_matches
from typing import Final

from llmgwd.model.errors import InvalidSpec

KINDS: Final[tuple[tuple[type | tuple[type, ...], str], ...]] = (
    (type(None), "nothing"),
    (bool, "a boolean"),  # before int, which it is to Python
    ((int, float), "a number"),
    (str, "a string"),
    ((list, tuple), "a list"),
    (Mapping, "a table"),
)


def shown(value: object) -> str:
    """A value as an error names it; of lists and tables, which may hold secrets, only the kind."""
    match value:
        case bool():
            return str(value).lower()
        case int() if abs(value) >= 1 << 64:
            return "a number beyond 64 bits"
        case int() | float():
            return repr(value)
        case str():
            return repr(value) if len(value) <= 64 else f"{value[:60]!r}…"
        case _:
            return kind_of(value)


def kind_of(value: object) -> str:
    """The kind of a value, for errors that must not show the value itself."""
    for kinds, words in KINDS:
        if isinstance(value, kinds):
            return words
    return type(value).__name__


def as_typed(value: object) -> object:
    """A length of time as somebody typed it: for us all are floats, and what was -1 is -1.0."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def refuse(where: str, value: object, takes: str) -> InvalidSpec:
    return InvalidSpec(f"{where}: got {shown(value)}, takes {takes}")


def raised(error: BaseException) -> str:
    """What somebody else's code has raised, in one line."""
    return f"{type(error).__name__}: {error}".removesuffix(": ")


def check_known(prefix: str, given: Collection[object], known: Collection[str]) -> None:
    """Refuse the first key that is not known, with the nearest one that is."""
    for key in given:
        if key not in known:
            near = get_close_matches(key, known, 1) if isinstance(key, str) and len(key) <= 64 else []
            hint = f", did you mean {near[0]}?" if near else ""
            raise InvalidSpec(f"{prefix}{plain(key)}: unknown key{hint}")


def plain(key: object) -> str:
    """A key as it was written, where that can be read."""
    return key if isinstance(key, str) and len(key) <= 64 and key.isprintable() and key else shown(key)
