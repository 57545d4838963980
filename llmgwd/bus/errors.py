"""What can go wrong on a bus.

CallFailed      the other side answered with an error
CallTimedOut    it did not answer in time      } whether the call was carried out is not known
BusLost         the bus itself went away       }
NameTaken       somebody else owns the well-known name
Unserved        a call to us that no method can answer (unknown object, wrong signature ...)
"""

_FREEDESKTOP = "org.freedesktop.DBus.Error."
FAILED = _FREEDESKTOP + "Failed"
INVALID_ARGS = _FREEDESKTOP + "InvalidArgs"
LIMITS_EXCEEDED = _FREEDESKTOP + "LimitsExceeded"
NAME_HAS_NO_OWNER = _FREEDESKTOP + "NameHasNoOwner"
NO_REPLY = _FREEDESKTOP + "NoReply"
PROPERTY_READ_ONLY = _FREEDESKTOP + "PropertyReadOnly"
UNKNOWN_INTERFACE = _FREEDESKTOP + "UnknownInterface"
UNKNOWN_METHOD = _FREEDESKTOP + "UnknownMethod"
UNKNOWN_OBJECT = _FREEDESKTOP + "UnknownObject"
UNKNOWN_PROPERTY = _FREEDESKTOP + "UnknownProperty"


class _Answer(Exception):  # noqa: N818
    """An error as it stands in a message: `error` is its D-Bus name, `text` the sentence."""

    def __init__(self, error: str, text: str) -> None:
        super().__init__(f"{text} ({error})" if text else error)
        self.error = error
        self.text = text


class CallFailed(_Answer):
    """A call of ours was answered with an error."""


class Unserved(_Answer):
    """A call to us that no method can answer."""


class BusLost(Exception):  # noqa: N818
    """The bus went away; whether a call in flight was carried out is not known."""


class CallTimedOut(Exception):  # noqa: N818
    """No answer came in time; whether the call was carried out is not known."""


class NameTaken(Exception):  # noqa: N818
    """Somebody else owns the well-known name."""
