"""The objects that a connection serves: which method a call means, and how answers and errors leave."""

import asyncio
import functools
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from llmgwd.bus import errors
from llmgwd.bus.calls import Caller, Emit, Interface
from llmgwd.bus.declarations import Method
from llmgwd.bus.errors import Unserved
from llmgwd.bus.library import Message, MessageFlag
from llmgwd.bus.reader import MAX_CALL
from llmgwd.bus.standard import METHODS, OBJECT_MANAGER, PEER, standard_at
from llmgwd.bus.values import body

CALLS_PER_CALLER = 128  # dbus-daemon lets nobody wait for more replies either

Authorise = Callable[[Caller, str], Awaitable[None]]
Errors = Callable[[Exception], tuple[str, str] | None]
Send = Callable[[Message], object]

log = logging.getLogger(__name__)


class Objects:
    """The objects at and below `root`, where the ObjectManager is."""

    def __init__(
        self, root: str, *, authorise: Authorise, errors: Errors, internal_error: str = errors.FAILED
    ) -> None:
        """`authorise(caller, action)` is awaited before each declared method and raises to refuse.

        `errors` gives D-Bus name and text of an exception that is meant for the caller, and None of any
        other: that one is logged with its traceback, and answered by `internal_error` with no details.
        """
        self.root = root
        self._authorise = authorise
        self._errors = errors
        self._internal_error = internal_error
        self._at: dict[str, tuple[Interface, ...]] = {}
        self._emit: Emit | None = None
        self._running: set[asyncio.Task[None]] = set()
        self._calls: Counter[str] = Counter()

    def paths(self) -> Iterable[str]:
        """The paths of all objects, in the order in which they came."""
        return self._at.keys()

    def interfaces(self, path: str) -> tuple[Interface, ...]:
        """What is served at `path`, in order; nothing where there is no object."""
        return self._at.get(path, ())

    def add(self, path: str, *interfaces: Interface) -> None:
        """Serves these interfaces at `path` from now on. InterfacesAdded says so, from the root.

        Raises ValueError where the path is not below the root, or an interface is served already.
        """
        if path != self.root and not path.startswith(self.root.rstrip("/") + "/"):
            raise ValueError(f"{path} is not below {self.root}")
        there = {one.name for one in self.interfaces(path)}
        for one in interfaces:
            if one.name in there:
                raise ValueError(f"{path} has {one.name} already")
            one.served(path, self.emit)
            self._at[path] = (*self.interfaces(path), one)
        if path != self.root:
            news = {one.name: one.properties() for one in interfaces}
            self.emit(self.root, OBJECT_MANAGER, "InterfacesAdded", "oa{sa{sv}}", path, news)

    def remove(self, path: str) -> None:
        """Serves nothing at `path` any more; InterfacesRemoved says so. Calls that run go on.

        Raises KeyError where there is no object.
        """
        gone = self._at.pop(path)
        for one in gone:
            one.withdrawn()
        if path != self.root:
            names = [one.name for one in gone]
            self.emit(self.root, OBJECT_MANAGER, "InterfacesRemoved", "oas", path, names)

    def emit(self, path: str, interface: str, member: str, signature: str = "", *body: Any) -> None:
        """Sends a signal where these objects are served; does nothing while they are not."""
        if self._emit is not None:
            self._emit(path, interface, member, signature, *body)

    def served(self, emit: Emit) -> None:
        """Told by the connection that serves these: how signals leave."""
        self._emit = emit

    def received(self, message: Message, send: Send) -> None:
        """Answers a method call by `send`, now or later."""
        reply = _Reply(message, send)
        try:
            self._dispatch(message, reply)
        except Unserved as refusal:
            reply.error(refusal.error, f"{_last(refusal.error)}: {refusal.text}")
        except Exception as error:  # noqa: BLE001 a bug in reading a property must not reach the library
            self._failed(error, reply)

    async def close(self) -> None:
        """Ends the calls that run; each is answered."""
        running = list(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def _dispatch(self, message: Message, reply: "_Reply") -> None:
        owner, method = self._find(message)
        if message.signature != method.signature:
            text = f"{method.member} takes '{method.signature}', not '{message.signature}'"
            raise Unserved(errors.INVALID_ARGS, text)
        if len(message.body) != len(method.takes):
            raise Unserved(
                errors.LIMITS_EXCEEDED, f"a call of {method.member} takes at most {MAX_CALL} bytes"
            )
        if owner is None:
            reply.result(method, method.function(self, message.path, *message.body))
            return
        if self._calls[message.sender] >= CALLS_PER_CALLER:
            text = f"{message.sender} has {CALLS_PER_CALLER} calls in progress, which is the most"
            raise Unserved(errors.LIMITS_EXCEEDED, text)
        self._calls[message.sender] += 1
        task = asyncio.create_task(self._run(owner, method, message, reply))
        self._running.add(task)
        task.add_done_callback(functools.partial(self._ended, message.sender, reply))

    def _find(self, message: Message) -> tuple[Interface | None, Method]:
        """The method that is called; without an interface when it is one of `standard`."""
        path, interface, member = message.path or "", message.interface or "", message.member or ""
        own = self.interfaces(path)
        standard = standard_at(self, path)
        if not own and interface not in standard and (interface or member not in METHODS[PEER]):
            raise Unserved(errors.UNKNOWN_OBJECT, f"no object {path}")
        if interface and interface not in standard and interface not in {one.name for one in own}:
            raise Unserved(errors.UNKNOWN_INTERFACE, f"no interface {interface} at {path}")
        for one in own:
            if interface in {"", one.name} and member in one.declared_methods:
                return one, one.declared_methods[member]
        for name in standard:
            if interface in {"", name} and member in METHODS[name]:
                return None, METHODS[name][member]
        raise Unserved(
            errors.UNKNOWN_METHOD, f"no method {member} of {interface or 'any interface'} at {path}"
        )

    async def _run(self, owner: Interface, method: Method, message: Message, reply: "_Reply") -> None:
        try:
            flags = message.flags
            caller = Caller(message.sender, bool(flags & MessageFlag.ALLOW_INTERACTIVE_AUTHORIZATION))
            await self._authorise(caller, method.action)
            reply.result(method, await method.function(owner, caller, *message.body))
        except Exception as error:  # noqa: BLE001 the one place where exceptions become answers
            self._failed(error, reply)

    def _ended(self, sender: str, reply: "_Reply", task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._calls[sender] -= 1
        if not self._calls[sender]:
            del self._calls[sender]
        if task.cancelled():
            # as if nobody had answered: the caller can't tell either, and may ask again
            reply.error(errors.NO_REPLY, f"NoReply: {reply.what} was given up")
        elif (error := task.exception()) is not None:
            # `errors` itself failed, or gave a name that is none
            log.error("%s could not be answered", reply.what, exc_info=error)
            reply.error(errors.FAILED, f"Failed: {reply.what} failed, see the journal")

    def _failed(self, error: Exception, reply: "_Reply") -> None:
        answer = self._errors(error)
        if answer is None:
            log.error("%s failed unexpectedly", reply.what, exc_info=error)
            text = f"{_last(self._internal_error)}: {reply.what} failed, see the journal"
            answer = self._internal_error, text
        reply.error(*answer)


def _last(error: str) -> str:
    """The name with which a text begins, since busctl shows the text only."""
    return error.rpartition(".")[2]


class _Reply:
    """The answer to one call, unless the caller wants none."""

    def __init__(self, message: Message, send: Send) -> None:
        self._message = message
        self._send = send
        self.what = f"{message.interface}.{message.member}" if message.interface else str(message.member)

    def result(self, method: Method, result: Any) -> None:
        """Answers with what the method gave; raises where that is not what it declared."""
        if self._message.flags & MessageFlag.NO_REPLY_EXPECTED:
            return
        values = (result,) if len(method.gives) == 1 else tuple(result or ())
        if len(values) != len(method.gives):
            raise ValueError(f"{method.member} gave {len(values)} values, not {len(method.gives)}")
        self._send(Message.new_method_return(self._message, method.reply_signature, body(values)))

    def error(self, name: str, text: str) -> None:
        """Answers with an error, whatever the text is made of."""
        if self._message.flags & MessageFlag.NO_REPLY_EXPECTED:
            return
        clean = text.replace("\0", "\\0").encode(errors="backslashreplace").decode()
        self._send(Message.new_error(self._message, name, clean))
