"""Two machines that are joined: each reaches the other, and each daemon knows its own end of the cable."""

import json
import os

import pytest

from tests.machine.machine import Machine
from tests.machine.pair import A, B, Pair

CONNECT = "import socket, sys; socket.create_connection((sys.argv[1], 22222), timeout=5)"
LISTEN = """
import socket, sys
listener = socket.create_server((sys.argv[1], 22222), family=socket.AddressFamily(int(sys.argv[2])))
print("listening", flush=True)
print(listener.accept()[1][0])
"""


@pytest.mark.parametrize("end", [(A.address, B.address, 2), (A.address6, B.address6, 10)])
def test_each_machine_reaches_the_other(pair: Pair, end: tuple[str, str, int]) -> None:
    a, b, family = end
    assert who_called(pair.a.machine, a, family, by=pair.b.machine) == b
    assert who_called(pair.b.machine, b, family, by=pair.a.machine) == a


def who_called(machine: Machine, address: str, family: int, *, by: Machine) -> str:
    with machine.popen(["/usr/bin/python3", "-IS", "-c", LISTEN, address, str(family)]) as listener:
        assert listener.stdout is not None
        assert listener.stdout.readline() == "listening\n"
        by.run(["/usr/bin/python3", "-IS", "-c", CONNECT, address])
        return listener.stdout.readline().strip()


def test_each_daemon_knows_its_own_end(pair: Pair) -> None:
    told = [json.loads(node.machine.run(["llmgwctl", "node", "--json"]).stdout) for node in pair.both]
    known = [(node["management_address"], node["management_interface"]) for node in told]
    assert known == [(A.address, A.interface), (B.address, B.interface)]


def test_this_hosts_network_has_none_of_it(pair: Pair) -> None:
    assert {A.interface, B.interface} & set(os.listdir("/sys/class/net")) == set()
