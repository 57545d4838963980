"""Methods, properties and signals as values, and the short notation in which they are declared."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from llmgwd.bus.library import SignatureTree

_INTERFACE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+", re.ASCII)
_MEMBER = re.compile(r"[A-Za-z_]\w*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a method or signal."""

    name: str
    signature: str


Arguments = tuple[Argument, ...]


@dataclass(frozen=True, slots=True)
class Method:
    """A method of an interface; `function` carries it out."""

    member: str
    takes: Arguments
    gives: Arguments
    action: str
    function: Callable[..., Any]

    @property
    def signature(self) -> str:
        """What a call has to carry."""
        return signature_of(self.takes)

    @property
    def reply_signature(self) -> str:
        """What the answer carries."""
        return signature_of(self.gives)


@dataclass(frozen=True, slots=True)
class Property:
    """A property, always read-only; `emits` as in org.freedesktop.DBus.Property.EmitsChangedSignal."""

    signature: str
    emits: str


def signature_of(arguments: Arguments) -> str:
    """The signature of a message with these arguments."""
    return "".join(argument.signature for argument in arguments)


def arguments(text: str) -> Arguments:
    """Reads `"s id, a{sv} spec"`; raises ValueError."""
    parts = [part.split() for part in text.split(",")] if text else []
    if any(len(part) != 2 for part in parts):
        raise ValueError(f"not 'signature name, signature name': {text!r}")
    return tuple(Argument(member(name), _signature(signature)) for signature, name in parts)


def property_of(text: str) -> Property:
    """Reads `"s"` or `"s const"`; raises ValueError."""
    signature, _, emits = text.partition(" ")
    if emits not in {"", "const", "invalidates", "false"}:
        raise ValueError(f"not 'signature' or 'signature const|invalidates|false': {text!r}")
    return Property(_signature(signature), emits or "true")


def member(name: str) -> str:
    """The name of a method, signal, property or argument, as it is; raises ValueError."""
    if not _MEMBER.fullmatch(name):
        raise ValueError(f"not a name on D-Bus: {name!r}")
    return name


def interface(name: str) -> str:
    """The name of an interface, as it is; raises ValueError."""
    if not _INTERFACE.fullmatch(name):
        raise ValueError(f"not the name of an interface: {name!r}")
    return name


def _signature(text: str) -> str:
    if len(SignatureTree(text).types) != 1:
        raise ValueError(f"not one complete type: {text!r}")
    return text
