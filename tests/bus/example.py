"""A service for the tests: all that an interface can declare, and methods that misbehave on request."""

import asyncio
from collections.abc import Mapping
from typing import Any, ClassVar

from llmgwd.bus.calls import Caller, Interface, exported
from llmgwd.bus.connection import Connection
from llmgwd.bus.library import Variant
from llmgwd.bus.objects import Objects


class RefusedError(Exception):
    """What the service's own errors look like."""


class Manager(Interface):
    name = "org.example.Node1.Manager"
    PROPERTIES: ClassVar = {
        "Version": "s const",
        "Gpus": "aa{sv}",
        "Load": "d invalidates",
        "Uptime": "t false",
    }
    SIGNALS: ClassVar = {"StateChanged": "s id, s reason", "Nothing": ""}

    def __init__(self) -> None:
        self.values: dict[str, object] = {
            "Version": "1.2",
            "Gpus": ({"index": Variant("u", 0)},),
            "Load": 0.5,
            "Uptime": 17,
        }
        self.callers: list[Caller] = []
        self.entered = asyncio.Semaphore(0)
        self.release = asyncio.Event()

    def read(self) -> Mapping[str, object]:
        return self.values

    @exported("Echo", takes="s text, a{sv} options", gives="s text, a{sv} options", action="example.use")
    async def echo(self, caller: Caller, text: str, options: dict[str, Variant]) -> tuple[object, ...]:
        self.callers.append(caller)
        return text, options

    @exported("Hold", gives="s text", action="example.use")
    async def hold(self, caller: Caller) -> str:
        self.entered.release()
        await self.release.wait()
        return "released"

    @exported("Refuse", takes="s text", action="example.use")
    async def refuse(self, caller: Caller, text: str) -> None:
        raise RefusedError(text)

    @exported("Break", action="example.use")
    async def break_down(self, caller: Caller) -> None:
        raise RuntimeError("the secret is 1234")

    @exported("Vanish", action="example.use")
    async def vanish(self, caller: Caller) -> None:
        raise asyncio.CancelledError

    @exported("Give", takes="s what", gives="as texts", action="example.use")
    async def give(self, caller: Caller, what: str) -> object:
        answers = {
            "tuple": ("a", "b"),
            "number": 7,
            "NUL": ["a\0b"],
            "half": ["\ud800"],
            "much": ["x" * 2**25],
        }
        return answers[what]

    @exported("Command", action="example.command")
    async def command(self, caller: Caller) -> None:
        self.callers.append(caller)


class Shard(Interface):
    name = "org.example.Node1.Shard"
    PROPERTIES: ClassVar = {"Id": "s const", "Pid": "u"}
    SIGNALS: ClassVar = {"StateChanged": "s old, s new"}

    def __init__(self, id: str) -> None:
        self.id = id
        self.pid = 0

    def read(self) -> Mapping[str, object]:
        return {"Id": self.id, "Pid": self.pid}

    @exported("Stop", takes="a{sv} options", action="example.use")
    async def stop(self, caller: Caller, options: Mapping[str, Any]) -> None:
        self.pid = 0


class Example:
    """The service: a manager at the root, and the shards that a test adds."""

    NAME = "org.example.Node1"
    ROOT = "/org/example/Node1"

    connection: Connection

    def __init__(self) -> None:
        self.asked: list[tuple[Caller, str]] = []
        self.manager = Manager()
        self.objects = Objects(
            self.ROOT,
            authorise=self.authorise,
            errors=self.errors,
            internal_error="org.example.Node1.Error.Internal",
        )
        self.objects.add(self.ROOT, self.manager)

    async def authorise(self, caller: Caller, action: str) -> None:
        self.asked.append((caller, action))
        if action == "example.command":
            raise PermissionError("not you")

    def errors(self, error: Exception) -> tuple[str, str] | None:
        if isinstance(error, RefusedError):
            return "org.example.Node1.Error.Refused", f"Refused: {error}"
        if isinstance(error, PermissionError):
            return "org.freedesktop.DBus.Error.AccessDenied", f"AccessDenied: {error}"
        return None


MANAGER = (Example.NAME, Example.ROOT, Manager.name)
PROPERTIES = (Example.NAME, Example.ROOT, "org.freedesktop.DBus.Properties")
