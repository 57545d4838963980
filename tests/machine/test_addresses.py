"""What ranks on two nodes are told of their own node, and leaders whose names nobody answers for."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.machine.laid import write_program
from tests.machine.node import Node
from tests.machine.pair import A, B, End, Pair
from tests.machine.specs import waiting

# It takes any arguments, and has the environment that the real one would have.
STAND_IN = "/opt/stand-in/engine"
PORT = 29501
RANKS = {
    "model": "m",
    "executable": STAND_IN,
    "health_path": "",
    "nodes": 2,
    "leader_address": A.address,
    "leader_port": PORT,
    "tensor_parallel": 2,
}
NAMES = ("VLLM_HOST_IP", "SGLANG_HOST_IP", "NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME")
SILENT = 8
# Ten times what it takes; a name server that does not answer is waited for twice as long.
SOON_S = 5.0


def told(node: Node, id: str) -> dict[str, str]:
    """Those of NAMES that are in the environment of the engine itself."""
    variables = node.machine.path(f"/proc/{node.shard(id)['Pid']}/environ").read_text().split("\0")
    found = dict(variable.split("=", 1) for variable in variables if variable)
    return {name: found[name] for name in NAMES if name in found}


def of(end: End, own: str) -> dict[str, str]:
    return {
        own: end.address,
        "NCCL_SOCKET_IFNAME": f"={end.interface}",
        "GLOO_SOCKET_IFNAME": end.interface,
        "TP_SOCKET_IFNAME": end.interface,
    }


@pytest.mark.parametrize(("engine", "own"), [("vllm", "VLLM_HOST_IP"), ("sglang", "SGLANG_HOST_IP")])
def test_each_rank_is_told_its_own_address_and_interface(pair: Pair, engine: str, own: str) -> None:
    for rank, node in enumerate(pair.both):
        write_program(node.machine, STAND_IN, "sleep", "1000", "#")
        node.started("a", **RANKS, engine=engine, rank=rank)
    assert [told(node, "a") for node in pair.both] == [of(A, own), of(B, own)]


def test_what_the_spec_says_wins_and_one_node_is_told_nothing(pair: Pair) -> None:
    write_program(pair.b.machine, STAND_IN, "sleep", "1000", "#")
    mine = {"VLLM_HOST_IP": "10.9.9.9", "GLOO_SOCKET_IFNAME": "mine"}
    pair.b.started("a", **RANKS, engine="vllm", rank=1, environment=mine)
    assert told(pair.b, "a") == of(B, "VLLM_HOST_IP") | mine
    pair.b.started("b", engine="vllm", model="m", executable=STAND_IN, health_path="")
    assert told(pair.b, "b") == {}


def test_a_port_that_anybody_may_get_is_one_line_in_the_journal(pair: Pair) -> None:
    write_program(pair.b.machine, STAND_IN, "sleep", "1000", "#")
    spec = RANKS | {"engine": "vllm", "rank": 1, "leader_port": 40_000, "model": "warned"}
    for _ in range(2):  # the second time it is there already
        pair.b.start("warned", **spec)
    said = [entry["MESSAGE"] for entry in pair.b.log("LLMGW_SHARD=warned")]
    line = (
        "shard warned: leader_port: 40000 is one of those that the kernel gives to anybody "
        "(32768 to 60999, net.ipv4.ip_local_port_range)"
    )
    assert [text for text in said if "leader_port" in text] == [line]


@contextmanager
def name_server_that_does_not_answer(pair: Pair) -> Iterator[None]:
    """On a, and b asks it."""
    resolv = pair.b.machine.path("/etc/resolv.conf")
    before = resolv.read_text()
    sink = "import socket, time; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('', 53)); "
    with pair.a.machine.popen(
        ["/usr/bin/python3", "-c", sink + "print('up', flush=True); time.sleep(600)"]
    ) as up:
        assert up.stdout is not None
        assert up.stdout.readline() == "up\n"
        resolv.write_text(f"nameserver {A.address}\n")
        try:
            yield
        finally:
            resolv.write_text(before)


def test_leaders_whose_names_nobody_answers_for_hold_up_nobody_else(pair: Pair) -> None:
    node = pair.b
    with name_server_that_does_not_answer(pair):
        for number in range(SILENT):
            node.start(
                f"w{number}",
                command=["/bin/sleep", "1000"],
                **waiting(PORT) | {"leader_address": f"n{number}.example"},
            )
        for number in range(SILENT):
            node.wait(f"w{number}", "waits", lambda shard: "waits for n" in shard["Reason"])
        begun = time.monotonic()
        node.started("other", command=["/bin/sleep", "1000"])
        started = time.monotonic()
        node.restart_daemon()
        restarted = time.monotonic()
        assert (started - begun < SOON_S, restarted - started < SOON_S) == (True, True)
        node.call("StopAll", "a{sv}", "1", "timeout_seconds", "d", "0")
