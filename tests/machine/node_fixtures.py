"""Fixtures: llmgwd on a machine or on two that a module shares, and what is true after each of its tests."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.machine.machine import Machine
from tests.machine.node import CONFIG, CONFIGURED, DAEMON, MANAGER, ROOT, SERVICE, TERMINAL, Node
from tests.machine.pair import Pair, joined
from tests.machine.specs import engine

SENTINEL = "sentinel.service"
ENDED = {*TERMINAL}
# Of the daemon without a shard: standard ones, lock, loop, two for the bus, network, journal, notifications.
DESCRIPTORS = 12


@pytest.fixture(scope="module")
def booted_node() -> Iterator[Node]:
    with Machine("node", enable=[DAEMON], files={CONFIG: CONFIGURED}) as machine:
        node = Node(machine)
        with node.service(SENTINEL, engine()):
            yield node


@pytest.fixture(scope="module")
def booted_pair() -> Iterator[Pair]:
    with joined() as pair, pair.a.service(SENTINEL, engine()), pair.b.service(SENTINEL, engine()):
        yield pair


@pytest.fixture
def node(booted_node: Node) -> Iterator[Node]:
    """No shard is there before the test, and after it nothing is left that should not be."""
    with left_as_it_was(booted_node):
        yield booted_node


@pytest.fixture
def pair(booted_pair: Pair) -> Iterator[Pair]:
    """The same of two nodes."""
    with left_as_it_was(booted_pair.a), left_as_it_was(booted_pair.b):
        yield booted_pair


@contextmanager
def left_as_it_was(node: Node) -> Iterator[None]:
    cursor = node.machine.run(["journalctl", "--quiet", "--lines=0", "--show-cursor"]).stdout
    sentinel = node.identity(node.main_pid(SENTINEL))
    assert sentinel is not None
    try:
        yield
    finally:
        sweep(node)
    node.machine.wait_for("its descriptors are closed", lambda: descriptors(node) <= DESCRIPTORS)
    assert node.identity(node.main_pid(SENTINEL)) == sentinel
    entries = node.log("--after-cursor=" + cursor.strip().removeprefix("-- cursor: "))
    assert [entry for entry in entries if is_fault(str(entry["MESSAGE"]))] == []


def sweep(node: Node) -> None:
    """Stops and forgets every shard, and sees that nothing is left of them."""
    node.systemctl("start", DAEMON)
    node.call("StopAll", "a{sv}", "1", "timeout_seconds", "d", "0")
    node.machine.wait_for("all to end", lambda: {one["State"] for one in node.shards().values()} <= ENDED)
    shards = node.shards()
    held = {one: (node.processes(shard), shard["Pid"]) for one, shard in shards.items()}
    assert held == dict.fromkeys(shards, ((), 0))
    remove = 'for id; do "$0" call -q -- {} {} {} RemoveShard s "$id" || exit; done'
    node.machine.run(["sh", "-c", remove.format(SERVICE, ROOT, MANAGER), "busctl", *shards])
    node.machine.wait_for("nothing is left", lambda: left(node) == "")


def left(node: Node) -> str:
    """Records, scopes, and children of the daemon: zombies, or gates that nobody watches."""
    look = "ls /var/lib/llmgwd; systemctl list-units --all --plain --no-legend 'llmgw-shard-*'; "
    return node.machine.run(["sh", "-c", f"{look} ps h --ppid {node.daemon_pid()} || :"]).stdout


def descriptors(node: Node) -> int:
    """How many the daemon has open."""
    return len(node.machine.run(["ls", f"/proc/{node.daemon_pid()}/fd"]).stdout.split())


def is_fault(message: str) -> bool:
    return "Traceback" in message or "a fault of llmgwd" in message
