"""What introspection says about an object, from the declarations."""

from collections.abc import Iterable, Mapping

from llmgwd.bus.declarations import Argument, Arguments, Method, Property

_DOCTYPE = (
    '<!DOCTYPE node PUBLIC "-//freedesktop//DTD D-BUS Object Introspection 1.0//EN"\n'
    ' "http://www.freedesktop.org/standards/dbus/1.0/introspect.dtd">\n'
)
_EMITS = "org.freedesktop.DBus.Property.EmitsChangedSignal"


def interface_xml(
    name: str,
    methods: Iterable[Method],
    signals: Mapping[str, Arguments],
    properties: Mapping[str, Property],
) -> str:
    """The `<interface>` element; no namespaces, which busctl can't read."""
    lines: list[str] = []
    for method in methods:
        inner = [_argument(argument, ' direction="in"') for argument in method.takes]
        inner += [_argument(argument, ' direction="out"') for argument in method.gives]
        lines += _element("method", f'name="{method.member}"', inner)
    for member, arguments in signals.items():
        lines += _element("signal", f'name="{member}"', [_argument(argument) for argument in arguments])
    for member, declared in properties.items():
        inner = (
            [f'<annotation name="{_EMITS}" value="{declared.emits}"/>'] if declared.emits != "true" else []
        )
        lines += _element("property", f'name="{member}" type="{declared.signature}" access="read"', inner)
    return "\n".join(_element("interface", f'name="{name}"', lines)) + "\n"


def node_xml(interfaces: Iterable[str], children: Iterable[str]) -> str:
    """The whole answer to Introspect: `interfaces` as elements, `children` by name."""
    lines = [line for interface in interfaces for line in interface.splitlines()]
    lines += [f'<node name="{child}"/>' for child in children]
    return _DOCTYPE + "\n".join(["<node>", *(f"  {line}" for line in lines), "</node>"]) + "\n"


def _argument(argument: Argument, direction: str = "") -> str:
    return f'<arg name="{argument.name}" type="{argument.signature}"{direction}/>'


def _element(tag: str, attributes: str, inner: list[str]) -> list[str]:
    if not inner:
        return [f"<{tag} {attributes}/>"]
    return [f"<{tag} {attributes}>", *(f"  {line}" for line in inner), f"</{tag}>"]
