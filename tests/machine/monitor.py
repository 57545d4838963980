"""What goes over a machine's system bus while a test runs, as `busctl monitor` shows it."""

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from tests.machine.machine import Machine

T = TypeVar("T")

# Sent until the monitor has seen one: with --json, systemd 257's busctl does not say when it listens.
PROBE = "org.llmgw.Test.Probe"


@dataclass(frozen=True, slots=True)
class Seen:
    """One message; of an error `member` is its name."""

    path: str
    interface: str
    member: str
    body: Sequence[Any]


class Monitor:
    """`seen` grows while the block runs."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self.listens = threading.Event()
        self._news = threading.Condition()

    def wait(self, what: str, look: Callable[[Sequence[Seen]], T], *, timeout_s: float = 10.0) -> T:
        """Looks at each message that comes until the answer is true, and returns it. Raises TimeoutError."""
        answers: list[T] = []

        def is_there() -> bool:
            answers.append(look(self.seen))
            return bool(answers[-1])

        with self._news:
            if not self._news.wait_for(is_there, timeout_s):
                raise TimeoutError(f"not within {timeout_s:g} s: {what}; seen: {self.seen[-20:]}")
        return answers[-1]

    def states(self, id: str) -> list[tuple[str, str, str]]:
        """What ShardStateChanged said of a shard: old state, new state, reason."""
        return [
            (str(one.body[1]), str(one.body[2]), str(one.body[3]))
            for one in self.seen
            if one.member == "ShardStateChanged" and one.body[0] == id
        ]

    def wait_state(self, id: str, state: str, *, timeout_s: float = 10.0) -> None:
        """Returns when ShardStateChanged has said that the shard has come to `state`."""
        self.wait(
            f"shard {id} is {state}",
            lambda _: [new for _, new, _ in self.states(id) if new == state],
            timeout_s=timeout_s,
        )

    def take_all(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.take(line)

    def take(self, line: str) -> None:
        """One line of busctl's JSON."""
        message = json.loads(line)
        seen = Seen(
            path=message.get("path", ""),
            interface=message.get("interface", ""),
            member=message.get("member") or message.get("error_name", ""),
            body=unwrapped(message.get("payload", {}).get("data", [])),
        )
        if seen.interface == PROBE:
            self.listens.set()
            return
        with self._news:
            self.seen.append(seen)
            self._news.notify_all()


@contextmanager
def monitor(machine: Machine, *matches: str) -> Iterator[Monitor]:
    """Runs `busctl monitor` beside the block, for messages that fit one of the match rules."""
    rules = (*matches, f"type='signal',interface='{PROBE}'")
    command = ["busctl", "monitor", "--json=short", *(f"--match={rule}" for rule in rules)]
    seen = Monitor()

    def probe() -> bool:
        machine.run(["busctl", "emit", "/", PROBE, "Sent"])
        return seen.listens.wait(0.05)

    with machine.popen(command) as process:
        assert process.stdout is not None
        reader = threading.Thread(target=seen.take_all, args=(process.stdout,), name="monitor")
        reader.start()
        try:
            machine.wait_for("the monitor listens", probe)
            yield seen
        finally:
            process.kill()
            reader.join()


def unwrapped(value: object) -> "list[object]":
    """The body of a message as busctl prints it in JSON, its variants replaced by what they hold."""
    plain = _plain(value)
    return plain if isinstance(plain, list) else [plain]


def _plain(value: object) -> object:
    if isinstance(value, list):
        return [_plain(entry) for entry in value]
    if isinstance(value, Mapping):
        if value.keys() == {"type", "data"}:
            return _plain(value["data"])
        return {key: _plain(entry) for key, entry in value.items()}
    return value
