"""Where a bus is to be found: "system", "session", or addresses as the D-Bus specification writes them."""

import os
from urllib.parse import unquote

_SYSTEM = "unix:path=/run/dbus/system_bus_socket"


def addresses(bus: str) -> tuple[str, ...]:
    """The addresses to try, in order; raises ConnectionError where the session has none."""
    if bus == "system":
        found = os.environ.get("DBUS_SYSTEM_BUS_ADDRESS") or _SYSTEM
    elif bus == "session":
        found = os.environ.get("DBUS_SESSION_BUS_ADDRESS", "")
        runtime = os.environ.get("XDG_RUNTIME_DIR", "")
        if not found and runtime:
            found = f"unix:path={runtime}/bus"
        if not found:
            raise ConnectionError("neither DBUS_SESSION_BUS_ADDRESS nor XDG_RUNTIME_DIR tells where it is")
    else:
        found = bus
    return tuple(address for address in found.split(";") if address)


def socket_address(address: str) -> str:
    """The UNIX socket of one address; raises ValueError where it is of another kind."""
    transport, _, options = address.partition(":")
    values = dict(option.partition("=")[::2] for option in options.split(","))
    if transport == "unix" and "path" in values:
        return unquote(values["path"])
    if transport == "unix" and "abstract" in values:
        return "\0" + unquote(values["abstract"])
    raise ValueError(f"not the address of a UNIX socket: {address!r}")
