"""What goes wrong between a client and the daemon.

Refusal (llmgwd.model.errors)   the daemon says no
└── UnknownRefusal              in words that are not the contract's
Unreachable                     nobody answers: no bus, no daemon on it
└── Unanswered                  nobody has answered: whether the call was carried out is not known
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from llmgwd.bus import errors as bus
from llmgwd.model.errors import BY_NAME, LimitExceeded, NotAllowed, Refusal

NAME: Final = "org.llmgw.Node1"
_DBUS: Final = "org.freedesktop.DBus.Error."

_AWAY: Final = frozenset({bus.NAME_HAS_NO_OWNER, _DBUS + "ServiceUnknown"})
_KINDS: Final[Mapping[str, type[Refusal]]] = {
    **{f"{NAME}.Error.{name}": kind for name, kind in BY_NAME.items() if kind is not NotAllowed},
    _DBUS + "AccessDenied": NotAllowed,
    _DBUS + "InteractiveAuthorizationRequired": NotAllowed,
    bus.LIMITS_EXCEEDED: LimitExceeded,
}


class Unreachable(Exception):  # noqa: N818  (named as the refusals are)
    """Nobody answers: there is no bus, or no daemon on it."""


class Unanswered(Unreachable):
    """The call was sent and no answer came: nobody can tell whether it was carried out."""


class UnknownRefusal(Refusal):
    """An error that the contract does not name, so one of D-Bus itself; `name` is its last word."""

    def __init__(self, error: str, text: str) -> None:
        super().__init__(text)
        self.error = error

    @property
    def name(self) -> str:
        return self.error.rpartition(".")[2]


@contextmanager
def in_our_words() -> Iterator[None]:
    """Raise what the bus raises as Unreachable, Unanswered or a Refusal."""
    try:
        yield
    except bus.CallFailed as error:
        raise translated(error) from error
    except (bus.BusLost, bus.CallTimedOut) as error:
        raise Unanswered(str(error)) from error


def translated(failed: bus.CallFailed) -> Exception:
    """What to raise for an error of the bus; its text is without the name that it may begin with."""
    if failed.error in _AWAY:
        return Unreachable(f"nobody owns {NAME} on the bus, is it running?")
    if failed.error == bus.NO_REPLY:
        return Unanswered("it went away before it answered")
    name = failed.error.rpartition(".")[2]
    kind = _KINDS.get(failed.error)
    if kind is NotAllowed and failed.text.startswith("Rejected send message"):
        # dbus-daemon goes on with 300 characters about both processes, which only its log is for
        return NotAllowed("the policy of the bus does not let this user call llmgwd")
    text = failed.text.removeprefix(f"{name}: ").removeprefix(f"{kind.__name__}: " if kind else "")
    return kind(text) if kind else UnknownRefusal(failed.error, text)
