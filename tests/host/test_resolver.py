"""Names are looked up where a server that does not answer holds up nobody else."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from socket import AddressFamily

import pytest

from llmgwd.host import probe, resolver
from llmgwd.host.probe import Probes
from llmgwd.host.resolver import Address, Resolver

V4 = Address("10.0.0.1", AddressFamily.AF_INET)
V6 = Address("fd00::1", AddressFamily.AF_INET6)


class Server:
    """A name server that answers when it is told to."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.answers = threading.Event()
        self.error: Exception | None = None

    def look_up(self, host: str) -> tuple[Address, ...]:
        self.asked.append(host)
        assert self.answers.wait(10)
        if self.error:
            raise self.error
        return (V6, V4)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    server = Server()
    monkeypatch.setattr(resolver, "_look_up", server.look_up)
    yield server
    server.answers.set()


async def asked(server: Server, number: int) -> None:
    async with asyncio.timeout(10):
        while len(server.asked) < number:  # noqa: ASYNC110 (a thread tells)
            await asyncio.sleep(0.001)


async def test_one_question_is_under_way_for_a_name_however_many_want_to_know(server: Server) -> None:
    names = Resolver()
    waiting = [asyncio.ensure_future(names.addresses(host)) for host in ("a", "a", "b", "a")]
    await asked(server, 2)
    server.answers.set()
    assert await asyncio.gather(*waiting) == [(V6, V4)] * 4
    assert sorted(server.asked) == ["a", "b"]
    await names.addresses("a")
    assert sorted(server.asked) == ["a", "a", "b"]


@pytest.mark.parametrize(
    "error", [socket.gaierror(socket.EAI_NONAME, "unknown"), UnicodeError("label too long")]
)
async def test_who_asks_is_told_why_there_is_no_answer(server: Server, error: Exception) -> None:
    server.error = error
    server.answers.set()
    with pytest.raises(type(error)):
        await Resolver().addresses("a")


async def test_a_server_that_does_not_answer_takes_no_thread_of_the_loops(server: Server) -> None:
    names = Resolver()
    loop = asyncio.get_running_loop()
    waiting = [asyncio.ensure_future(names.addresses(str(number))) for number in range(64)]
    await asked(server, 64)
    assert await asyncio.wait_for(loop.run_in_executor(None, lambda: "served"), 10) == "served"
    for each in waiting:
        each.cancel()
    assert {thread.daemon for thread in threading.enumerate() if thread.name.startswith("look-up")} == {True}


async def test_a_leader_whose_name_is_not_answered_is_not_listening_yet(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe, "_CONNECT_S", 0.01)
    probes = Probes()
    assert [await probes.is_listening("leader", 1) for _ in range(5)] == [False] * 5
    assert server.asked == ["leader"]
    await probes.close()


def test_a_question_that_is_never_answered_does_not_hold_the_end_of_the_loop(server: Server) -> None:
    async def gives_up() -> None:
        waiting = asyncio.ensure_future(Resolver().addresses("a"))
        await asked(server, 1)
        waiting.cancel()

    asyncio.run(gives_up())
    assert not server.answers.is_set()


async def test_aiohttp_is_told_the_same_in_its_own_words(server: Server) -> None:
    server.answers.set()
    rest = {"hostname": "a", "port": 80, "proto": 0, "flags": socket.AI_NUMERICHOST}
    assert await Resolver().resolve("a", 80, AddressFamily.AF_INET) == [
        {"host": "10.0.0.1", "family": AddressFamily.AF_INET} | rest
    ]
    assert [entry["host"] for entry in await Resolver().resolve("a", 80)] == ["fd00::1", "10.0.0.1"]


async def test_numbers_are_their_own_answer() -> None:
    assert await Resolver().addresses("127.0.0.1") == (Address("127.0.0.1", AddressFamily.AF_INET),)
    assert await Resolver().addresses("::1") == (Address("::1", AddressFamily.AF_INET6),)


async def test_an_address_that_leads_nowhere_costs_the_others_nothing(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as full, socket.socket() as first, socket.create_server(("127.0.0.2", 0)) as there:
        port = there.getsockname()[1]
        full.bind(("127.0.0.1", port))
        full.listen(0)
        first.connect(full.getsockname())  # whoever else connects is not answered
        found = tuple(Address(host, AddressFamily.AF_INET) for host in ("127.0.0.1", "127.0.0.2"))
        monkeypatch.setattr(resolver, "_look_up", lambda _: found)
        probes = Probes()
        assert await probes.is_listening("leader", port)
        await probes.close()
