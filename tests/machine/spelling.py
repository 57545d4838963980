"""Values as busctl takes them on its command line: a signature, then words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Typed:
    """A value that is spelled as another type than its own, to see it refused or taken."""

    signature: str
    words: tuple[str, ...]


def words(value: object) -> tuple[str, ...]:  # noqa: PLR0911  (one for each type)
    """Signature and words of one value: what a variant is on the command line."""
    match value:
        case Typed():
            return value.signature, *value.words
        case bool():
            return "b", str(value).lower()
        case int():
            return ("u" if 0 <= value < 1 << 32 else "x"), str(value)
        case float():
            return "d", repr(value)
        case str():
            return "s", value
        case Mapping():
            return "a{ss}", *strings([part for pair in value.items() for part in pair], pairs=True)
        case list() | tuple() if all(isinstance(entry, Mapping) for entry in value) and value:
            return "aa{sv}", str(len(value)), *(word for entry in value for word in dictionary(entry))
        case list() | tuple():
            return "as", *strings(value)
        case _:
            raise TypeError(f"cannot spell {value!r}")


def dictionary(values: Mapping[str, object]) -> tuple[str, ...]:
    """The words of an `a{sv}`, without the signature."""
    return str(len(values)), *(word for key, value in values.items() for word in (key, *words(value)))


def strings(values: Sequence[str], *, pairs: bool = False) -> tuple[str, ...]:
    return str(len(values) // 2 if pairs else len(values)), *values
