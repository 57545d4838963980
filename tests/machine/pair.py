"""Two booted machines joined by a veth pair, llmgwd on each: nodes on which a replica's ranks can meet."""

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Final

from tests.machine.host import MachineError
from tests.machine.machine import Machine
from tests.machine.node import CONFIG, CONFIGURED, DAEMON, Node

MANAGEMENT: Final = "/etc/llmgwd/llmgwd.toml.d/management.toml"


@dataclass(frozen=True, slots=True)
class End:
    """One end of the cable: what its machine calls it, and the addresses that it gives it."""

    interface: str
    address: str
    address6: str


# Two names, so that what is said of one node is seen to be wrong on the other.
A: Final = End("fabric0", "10.231.7.1", "fd00:231:7::1")
B: Final = End("uplink7", "10.231.7.2", "fd00:231:7::2")
LENGTH: Final = 24
LENGTH6: Final = 64


@dataclass(frozen=True, slots=True)
class Pair:
    """`a` has the addresses of A, `b` those of B."""

    a: Node
    b: Node

    @property
    def both(self) -> tuple[Node, Node]:
        return self.a, self.b


@contextmanager
def joined(
    management: Sequence[str] = (A.address, B.address),
    *,
    configured: str = CONFIGURED,
    files: Mapping[str, str] | None = None,
) -> Iterator[Pair]:
    """`management`: the address that either daemon takes for its node's. `files`: for both machines.

    Nothing of it is ever in this host's own network, and all of it goes with the machines.
    """
    with ExitStack() as machines:
        a, b = (
            machines.enter_context(
                Machine(
                    name,
                    files={
                        CONFIG: configured,
                        MANAGEMENT: f'[agent]\nmanagement_address = "{address}"\n',
                        **(files or {}),
                    },
                )
            )
            for name, address in zip(("node-a", "node-b"), management, strict=True)
        )
        join(a, b)
        pair = Pair(Node(a), Node(b))
        for node in pair.both:
            # Not at boot: when it starts it looks for the interface that holds its address.
            node.systemctl("start", DAEMON)
        yield pair


def join(a: Machine, b: Machine) -> None:
    """Lays a cable between two machines that run; packets pass when it returns. Raises MachineError."""
    laid = subprocess.run(
        [
            "ip", "link", "add", "name", A.interface, "netns", str(a.leader),
            "type", "veth", "peer", "name", B.interface, "netns", str(b.leader),
        ],
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    if laid.returncode != 0:
        raise MachineError(f"cannot join {a.name} and {b.name}: {laid.stderr.strip()}")
    for machine, end in ((a, A), (b, B)):
        machine.run(["ip", "address", "add", f"{end.address}/{LENGTH}", "dev", end.interface])
        # Without asking whether somebody else has it (nodad), which takes a second and more.
        machine.run(["ip", "address", "add", f"{end.address6}/{LENGTH6}", "dev", end.interface, "nodad"])
        machine.run(["ip", "link", "set", end.interface, "up"])
    for machine, end in ((a, A), (b, B)):
        wait_for_link(machine, end.interface)


def wait_for_link(machine: Machine, interface: str) -> None:
    """For up to a second after its other end is there, an interface loses all that it is to send."""
    state = ["cat", f"/sys/class/net/{interface}/operstate"]
    machine.wait_for("the link is up", lambda: machine.run(state).stdout == "up\n")
