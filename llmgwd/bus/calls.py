"""What an object offers on the bus: methods, properties and signals, declared where they are written."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeVar

from llmgwd.bus import declarations
from llmgwd.bus.declarations import Arguments, Method, Property, signature_of
from llmgwd.bus.introspection import interface_xml
from llmgwd.bus.library import Variant
from llmgwd.bus.values import wrap

_M = TypeVar("_M", bound=Callable[..., Awaitable[Any]])


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls: the unique name on the bus, and whether a person may be asked for a password (polkit)."""

    unique_name: str
    interactive: bool


class Emit(Protocol):
    """Sends a signal; what `Connection.emit` is."""

    def __call__(self, path: str, interface: str, member: str, signature: str = "", *body: Any) -> None:
        """Queues it."""


def exported(member: str, *, takes: str = "", gives: str = "", action: str) -> Callable[[_M], _M]:
    """Makes an async method `(self, caller, *arguments)` of an `Interface` callable as `member`.

    `takes` and `gives`: `"s id, a{sv} spec"`, signature and name of each argument. With one `gives` the
    method returns the value, with several a tuple of them, with none nothing.
    `action`: what `authorise(caller, action)` is asked before the method runs; never empty.
    """
    if not action:
        raise ValueError(f"{member} has no action to authorise")
    inputs, outputs = declarations.arguments(takes), declarations.arguments(gives)

    def declare(function: _M) -> _M:
        if function.__code__.co_argcount != 2 + len(inputs):
            raise TypeError(f"{member} takes self, caller and {len(inputs)} arguments")
        method = Method(declarations.member(member), inputs, outputs, action, function)
        function.__exported__ = method  # type: ignore[attr-defined]
        return function

    return declare


class Interface:
    """One interface of one object: subclasses declare, `Objects` serves, one path at a time."""

    name: ClassVar[str]
    PROPERTIES: ClassVar[Mapping[str, str]] = {}
    """Name to signature; then, where a change is not announced with the new value, what is done instead:
    `"s const"`, `"s invalidates"`, `"s false"` (org.freedesktop.DBus.Property.EmitsChangedSignal)."""
    SIGNALS: ClassVar[Mapping[str, str]] = {}
    """Member to arguments, written as for `exported`."""

    declared_methods: ClassVar[Mapping[str, Method]] = {}
    declared_properties: ClassVar[Mapping[str, Property]] = {}
    declared_signals: ClassVar[Mapping[str, Arguments]] = {}

    _served: tuple[str, Emit] | None = None

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        declarations.interface(cls.name)
        names = [name for base in reversed(cls.__mro__) for name in vars(base)]
        marked = [getattr(getattr(cls, name), "__exported__", None) for name in dict.fromkeys(names)]
        cls.declared_methods = {method.member: method for method in marked if isinstance(method, Method)}
        cls.declared_properties = {
            declarations.member(name): declarations.property_of(text) for name, text in cls.PROPERTIES.items()
        }
        cls.declared_signals = {
            declarations.member(name): declarations.arguments(text) for name, text in cls.SIGNALS.items()
        }

    def read(self) -> Mapping[str, object]:
        """The present values of all declared properties: plain, in Variants only where a v is declared."""
        return {}

    def properties(self, *names: str) -> dict[str, Variant]:
        """What `read` gives, or these of it, each value in a Variant of its declared signature."""
        values = self.read() if self.declared_properties else {}
        return {
            name: wrap(self.declared_properties[name].signature, values[name])
            for name in names or self.declared_properties
        }

    def changed(self, *names: str) -> None:
        """Announces a change of these properties (PropertiesChanged); does nothing while not served.

        Raises ValueError for a property that is declared `const` or `false`.
        """
        by_value = [name for name in names if self._announced(name) == "true"]
        invalidated = [name for name in names if self._announced(name) == "invalidates"]
        if self._served is None or not names:
            return
        path, emit = self._served
        values = self.properties(*by_value) if by_value else {}
        interface = "org.freedesktop.DBus.Properties"
        emit(path, interface, "PropertiesChanged", "sa{sv}as", self.name, values, invalidated)

    def emit(self, member: str, *body: object) -> None:
        """Sends a declared signal from the object's path; does nothing while not served."""
        signature = signature_of(self.declared_signals[member])
        if self._served is not None:
            path, emit = self._served
            emit(path, self.name, member, signature, *body)

    def served(self, path: str, emit: Emit) -> None:
        """Told by `Objects`: this is served at `path` now. Raises ValueError where it already was."""
        if self._served is not None:
            raise ValueError(f"{self.name} is served at {self._served[0]} already")
        self._served = path, emit

    def withdrawn(self) -> None:
        """Told by `Objects`: this is not served any more."""
        self._served = None

    @classmethod
    def xml(cls) -> str:
        """The `<interface>` element of the introspection data."""
        methods = cls.declared_methods.values()
        return interface_xml(cls.name, methods, cls.declared_signals, cls.declared_properties)

    def _announced(self, name: str) -> str:
        emits = self.declared_properties[name].emits
        if emits in {"const", "false"}:
            raise ValueError(f"changes of {self.name}.{name} are not announced: it is declared {emits}")
        return emits
