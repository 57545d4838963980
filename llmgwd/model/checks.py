"""What a value of a spec, an option or a configuration may be: each check refuses it or gives it in its type.

A check takes the name under which the value came, and the value. It raises InvalidSpec, which says what it
got and what it takes, or LimitExceeded, which says the limit; nothing else, whatever the value is.
"""

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeVar, get_args, get_type_hints

from llmgwd.model.addresses import host_and_port, is_host, is_shorthand
from llmgwd.model.errors import InvalidSpec, LimitExceeded
from llmgwd.model.wording import as_typed, kind_of, plain, refuse

T = TypeVar("T")
Check = Callable[[str, object], T]

TEXT_BYTES = 131_071  # MAX_ARG_STRLEN (linux/binfmts.h, execve(2)) without the closing NUL
LINE_BYTES = 4_095  # PATH_MAX without the closing NUL
LIST_ENTRIES = 4_096
LIST_BYTES = 1 << 20  # well below what execve(2) takes for arguments and environment together
SECONDS = 1_000_000_000  # 31 years: still exact as µs in a double and in PID 1's 64 bits
ANYTHING = re.compile(r".+", re.DOTALL)
WORD = re.compile(r"[^\s-]\S*")
GPU = re.compile(r"0|[1-9][0-9]{0,8}|(?=[^A-Za-z]*[A-Za-z])[0-9A-Za-z][0-9A-Za-z./:_-]*")
NUMBERS = re.compile(r"([0-9]{1,4})(?:-([0-9]{1,4}))?")


def marks(kind: type, mark: type[T]) -> dict[str, T]:
    """The `mark` in the annotation of each field of a dataclass, in the order of the fields."""
    hints = get_type_hints(kind, include_extras=True)
    return {name: next(m for m in get_args(hint) if isinstance(m, mark)) for name, hint in hints.items()}


def text(where: str, value: object) -> str:
    """Any text that an argument can be: UTF-8 without NUL. It may be a secret, so no error shows it."""
    if not isinstance(value, str):
        raise InvalidSpec(f"{where}: got {kind_of(value)}, takes a string")
    if "\0" in value:
        raise InvalidSpec(f"{where}: got a string with a NUL, takes one without")
    _bounded(where, _size(where, value), TEXT_BYTES)
    return value


def line(where: str, value: object) -> str:
    """A name, a path: a text that is not empty and has no control characters (newline, NUL, ESC …)."""
    return _matching(where, value, ANYTHING, "a string that is not empty and without control characters")


def shard_id(where: str, value: object) -> str:
    takes = "1 to 256 bytes of UTF-8 without control characters and without a blank at either end"
    if not isinstance(value, str) or not 1 <= _size(where, value) <= 256:
        raise refuse(where, value, takes)
    if _has_controls(value) or value != value.strip():
        raise refuse(where, value, takes)
    return value


def word(where: str, value: object) -> str:
    """A name that becomes an argument of its own: no blanks, no leading `-`."""
    return _matching(where, value, WORD, "a string without blanks that does not begin with '-'")


def word_or_none(where: str, value: object) -> str:
    return "" if value == "" else word(where, value)


def address(where: str, value: object) -> str:
    """An IP address or a host name, which is not looked up."""
    takes = "an IP address (without brackets and port) or a host name"
    given = _matching(where, value, ANYTHING, takes)
    _check_host(where, value, given, takes)
    return given


def peer(where: str, value: object) -> str:
    """An address that may carry a port; one of IPv6 has brackets then."""
    takes = "an address, which may carry a port (10.0.0.2:50052, [fd00::2]:50052)"
    given = _matching(where, value, ANYTHING, takes)
    host, port = host_and_port(given)
    if port and not 1 <= int(port) <= 65_535:
        raise refuse(where, value, f"{takes} from 1 to 65535")
    _check_host(where, value, host, takes)
    return given


def _check_host(where: str, value: object, host: str, takes: str) -> None:
    """`host`: the part of the value that is to be an address or a name."""
    if is_shorthand(host):
        raise refuse(where, value, "an IPv4 address: write it as four numbers")
    if not is_host(host):
        raise refuse(where, value, takes)


def gpu(where: str, value: object) -> str:
    return _matching(where, value, GPU, "the index or the UUID of a GPU, as a string")


def absolute(where: str, value: object) -> str:
    if not line(where, value).startswith("/"):
        raise refuse(where, value, "an absolute path")
    return line(where, value)


def program(where: str, value: object) -> str:
    """An absolute path, or a bare name that PATH resolves later."""
    name = line(where, value)
    if "/" in name and not name.startswith("/"):
        raise refuse(where, value, "an absolute path or a bare name")
    return name


def url_path(where: str, value: object) -> str:
    """The path of a URL, or nothing."""
    if value == "":
        return ""
    if not word(where, value).startswith("/"):
        raise refuse(where, value, "a path that begins with '/', or nothing")
    return word(where, value)


def flag(where: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise refuse(where, value, "true or false")
    return value


def integer(where: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not -(1 << 63) <= value < 1 << 63:
        raise refuse(where, value, "an integer")
    return int(value)


def whole(least: int, most: int) -> Check[int]:
    def check(where: str, value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise refuse(where, value, f"an integer from {least} to {most}")
        if not least <= value <= most:
            raise refuse(where, value, f"{least} to {most}")
        return int(value)

    return check


port = whole(1, 65_535)


def seconds(where: str, value: object) -> float:
    """A length of time; integers will do. Neither negative nor infinite nor NaN."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= SECONDS:
        raise refuse(where, as_typed(value), f"0 to {SECONDS} seconds")
    return float(value)


def one_of(*words: str) -> Check[str]:
    def check(where: str, value: object) -> str:
        if not isinstance(value, str) or value not in words:
            raise refuse(where, value, f"{', '.join(words[:-1])} or {words[-1]}")
        return value

    return check


def numbers(most: int) -> Check[str]:
    """A list of CPUs or memory nodes in the kernel's list format (cpuset(7)): `0-15,32`."""

    def check(where: str, value: object) -> str:
        spans = [NUMBERS.fullmatch(span) for span in line(where, value).split(",")]
        for span in spans:
            if span is None or not int(span[1]) <= int(span[2] or span[1]) <= most:
                raise refuse(where, value, f"a list of numbers up to {most} such as 0-15,32")
        return line(where, value)

    return check


def listed(
    entry: Check[T], *, most: int = LIST_ENTRIES, of: str = "strings", unique: bool = False
) -> Check[tuple[T, ...]]:
    def check(where: str, value: object) -> tuple[T, ...]:
        if not isinstance(value, list | tuple):
            raise InvalidSpec(f"{where}: got {kind_of(value)}, takes a list of {of}")
        if len(value) > most:
            raise LimitExceeded(f"{where}: {len(value)} entries, at most {most}")
        entries = tuple(entry(f"{where}[{index}]", each) for index, each in enumerate(value))
        _bounded(where, sum(_size(where, each) for each in entries if isinstance(each, str)), LIST_BYTES)
        if unique:
            refuse_twice(where, entries)
        return entries

    return check


def refuse_twice(where: str, entries: Sequence[object], part: str = "") -> None:
    seen = set()
    for index, entry in enumerate(entries):
        if entry in seen:
            raise refuse(f"{where}[{index}]{part}", entry, "each once")
        seen.add(entry)


def argv(where: str, value: object) -> tuple[str, ...]:
    """A program and its arguments; an empty list passes, so that the caller can say who needs one."""
    command = listed(text)(where, value)
    if command:
        program(f"{where}[0]", command[0])
    return command


def environment(where: str, value: object) -> Mapping[str, str]:
    """Names and values as environ(7) takes them. Values may hold anything but NUL."""
    if not isinstance(value, Mapping):
        raise InvalidSpec(f"{where}: got {kind_of(value)}, takes a table of strings")
    if len(value) > LIST_ENTRIES:
        raise LimitExceeded(f"{where}: {len(value)} entries, at most {LIST_ENTRIES}")
    variables: dict[str, str] = {}
    for name, content in value.items():
        key = f"{where}[{plain(variable(where, name))}]"
        variables[name] = text(key, content)
        _bounded(key, len(f"{name}={content}".encode()), TEXT_BYTES)
    _bounded(where, sum(len(f"{name}={content}".encode()) for name, content in variables.items()), LIST_BYTES)
    return MappingProxyType(variables)


def variable(where: str, value: object) -> str:
    """The name of an environment variable; not shown in errors, where it may be a whole NAME=secret."""
    name = text(where, value)
    _bounded(where, len(name), LINE_BYTES)
    if not name or "=" in name or _has_controls(name):
        raise InvalidSpec(
            f"{where}: got a name that is empty or has a '=' or a newline in it, takes none such"
        )
    return name


def _matching(where: str, value: object, pattern: re.Pattern[str], takes: str) -> str:
    if not isinstance(value, str):
        raise refuse(where, value, takes)
    _bounded(where, _size(where, value), LINE_BYTES)
    if _has_controls(value) or not pattern.fullmatch(value):
        raise refuse(where, value, takes)
    return value


def _has_controls(value: str) -> bool:
    return any(unicodedata.category(character) == "Cc" for character in value)


def _size(where: str, value: str) -> int:
    try:
        return len(value.encode())
    except UnicodeEncodeError as error:  # JSON can spell half a surrogate pair; no argument can hold one
        raise InvalidSpec(f"{where}: got a string with a lone surrogate, takes UTF-8") from error


def _bounded(where: str, size: int, most: int) -> None:
    if size > most:
        raise LimitExceeded(f"{where}: {size} bytes, at most {most}")
