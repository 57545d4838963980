"""All processes of a machine, whatever they are: to see that nothing is left of a shard."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from tests.machine.node import Node

# By pid and start time; their names are there to tell which.
Processes = Mapping[tuple[int, int], str]

# Ends when nobody has logged for half a minute, and is started again when somebody does.
JOURNAL = "/systemd-journald@llmgw.service"


def processes(node: Node) -> Processes:
    """All of a machine but the journal's of the engines."""
    found = {}
    for folder in node.machine.path("/proc").glob("[0-9]*"):
        try:
            identity, name = node.identity(int(folder.name)), (folder / "comm").read_text().strip()
            group = (folder / "cgroup").read_text().strip()
        except (FileNotFoundError, ProcessLookupError):
            continue  # has just ended
        if identity is not None and not group.endswith(JOURNAL):
            found[identity] = name
    return found


def assert_nothing_new(node: Node, before: Processes, *, timeout_s: float = 10.0) -> None:
    """Every process is one of those before."""

    def new() -> list[str]:
        return [name for identity, name in processes(node).items() if identity not in before]

    with suppress(TimeoutError):
        node.machine.wait_for("no process is new", lambda: not new(), timeout_s=timeout_s)
    left = new()
    assert left == [], f"left on {node.machine.name}: {', '.join(left)}"


@contextmanager
def nothing_left(*nodes: Node) -> Iterator[None]:
    """Around a test, and what ends its shards."""
    before = [processes(node) for node in nodes]
    yield
    for node, known in zip(nodes, before, strict=True):
        assert_nothing_new(node, known)
