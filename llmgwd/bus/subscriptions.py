"""Which signals are wanted, and from whom: a signal that anybody else sent is not delivered."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from llmgwd.bus.library import Message
from llmgwd.bus.ownership import Ask, owner

BUS = "org.freedesktop.DBus"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Signal:
    """A signal as it came; `sender` is the unique name of the connection that sent it."""

    sender: str
    path: str
    interface: str
    member: str
    body: list[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """Signals wanted by one handler; `sender` is a well-known or a unique name."""

    handler: Callable[[Signal], None]
    sender: str
    interface: str
    member: str
    path: str | None
    arg0: str | None

    @property
    def rule(self) -> str:
        """The match rule, as the D-Bus specification writes it."""
        wanted = {
            "sender": self.sender,
            "interface": self.interface,
            "member": self.member,
            "path": self.path,
            "arg0": self.arg0,
        }
        return "type='signal'" + "".join(
            f",{key}='{value}'" for key, value in wanted.items() if value is not None
        )

    def wants(self, message: Message) -> bool:
        """Whether it is such a signal, its sender aside."""
        return (
            message.member == self.member
            and message.interface == self.interface
            and self.path in {None, message.path}
            and (self.arg0 is None or message.body[:1] == [self.arg0])
        )


class Subscriptions:
    """All subscriptions of one connection, and who owns the names that they mention."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._wanted: list[Subscription] = []
        self._followed: set[str] = set()
        self._owners: dict[str, str] = {}

    async def add(self, subscription: Subscription) -> None:
        """Delivers such signals from now on, and after each `restore`."""
        self._wanted.append(subscription)
        await self._arrange(subscription)

    def remove(self, subscription: Subscription) -> None:
        """Delivers them no more; the bus goes on sending them until the connection ends."""
        self._wanted.remove(subscription)

    async def restore(self) -> None:
        """Tells a new connection's bus what is wanted."""
        self._followed.clear()
        self._owners.clear()
        for subscription in self._wanted:
            await self._arrange(subscription)

    def received(self, message: Message) -> None:
        """Delivers a signal to all who want it from its sender."""
        if message.signature and not message.body:
            return  # too long to be looked at, which nothing that was asked for ever is
        if message.sender == BUS and message.member == "NameOwnerChanged":
            name, _, successor = message.body
            if name in self._followed:
                self._owners[name] = successor
        for subscription in list(self._wanted):
            if subscription.wants(message) and self._is_from(message.sender, subscription.sender):
                self._deliver(subscription, message)

    def _is_from(self, unique_name: str | None, sender: str) -> bool:
        return unique_name == (sender if _is_unique(sender) else self._owners.get(sender))

    def _deliver(self, subscription: Subscription, message: Message) -> None:
        signal = Signal(
            sender=message.sender or "",
            path=message.path or "",
            interface=message.interface or "",
            member=message.member or "",
            body=message.body,
        )
        try:
            subscription.handler(signal)
        except Exception:
            # one handler's bug must not keep the signal from the others
            log.exception(
                "cannot handle signal %s.%s of %s", signal.interface, signal.member, subscription.sender
            )

    async def _arrange(self, subscription: Subscription) -> None:
        sender = subscription.sender
        if not _is_unique(sender) and sender not in self._followed:
            self._followed.add(sender)
            await self._ask("AddMatch", "s", _owner_rule(sender))
            # what NameOwnerChanged said meanwhile is newer than this answer, or the same
            self._owners.setdefault(sender, await owner(self._ask, sender))
        # only now, so that no signal comes whose sender can't be judged
        await self._ask("AddMatch", "s", subscription.rule)


def _is_unique(name: str) -> bool:
    return name.startswith(":") or name == BUS


def _owner_rule(name: str) -> str:
    return f"type='signal',sender='{BUS}',interface='{BUS}',member='NameOwnerChanged',arg0='{name}'"
