"""Questions to engines, answered by servers on the loopback that are well, ill or malicious."""

import asyncio
import gzip
import json
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from llmgwd.engines.plan import Http
from llmgwd.host import cgroup, probe
from llmgwd.host.probe import Probes
from tests.fakes.cgroups import Cgroups

GROUP = "/llmgw.slice/llmgw-shard-a.scope"
SHORT_S = 0.05

Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]


class Served:
    """A server: what it was asked, and how much it sent."""

    def __init__(self, answers: dict[str, Answer], host: str) -> None:
        self.host = host
        self.port = 0
        self.asked: list[str] = []
        self._answers = answers
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    @property
    def where(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def http(self, model: str = "", timeout_s: float = 2.0) -> Http:
        return Http(f"http://{self.where}", "/health", model, timeout_s)

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, self.host, 0)
        self.port = self._server.sockets[0].getsockname()[1]

    def stop_listening(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    async def close(self) -> None:
        self.stop_listening()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            request = (await reader.readuntil(b"\r\n\r\n")).decode()
            self.asked.append(request)
            await self._answers[request.split()[1]](writer)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the other side has gone
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()


Serve = Callable[..., Awaitable[Served]]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Starts servers: `await serve(health=…, models=…)`; `away` leaves a port that nobody listens on."""
    started: list[Served] = []

    async def one(
        health: Answer | None = None,
        models: Answer | None = None,
        host: str = "127.0.0.1",
        away: bool = False,
    ) -> Served:
        server = Served({"/health": health or answer(200), "/v1/models": models or answer(404)}, host)
        started.append(server)
        await server.start()
        if away:
            server.stop_listening()
        return server

    yield one
    for server in started:
        await server.close()


@pytest.fixture
async def probes() -> AsyncIterator[Probes]:
    probes = Probes()
    yield probes
    await probes.close()


@pytest.fixture
async def hasty(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Probes]:
    """Probes that wait for a connection a moment only."""
    monkeypatch.setattr(probe, "_CONNECT_S", SHORT_S)
    probes = Probes()
    yield probes
    await probes.close()


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cgroups:
    """The shard's own group has nobody in it."""
    monkeypatch.setattr(cgroup, "ROOT", tmp_path)
    groups = Cgroups(tmp_path)
    groups.put(GROUP, ())
    return groups


def answer(status: int, body: bytes | object = b"", *headers: str) -> Answer:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = "\r\n".join((f"HTTP/1.1 {status} X", f"Content-Length: {len(content)}", *headers, "", "")).encode()
    return raw(head + content)


def raw(data: bytes) -> Answer:
    async def send(writer: asyncio.StreamWriter) -> None:
        writer.write(data)

    return send


def models(*names: object) -> Answer:
    return answer(200, {"object": "list", "data": [{"id": name, "object": "model"} for name in names]})


async def silence(writer: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


async def trickle(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
    while True:
        writer.write(b" ")
        await writer.drain()
        await asyncio.sleep(SHORT_S / 10)


async def ask(probes: Probes, http: Http) -> str:
    return await probes.ask(http, GROUP, verify_listener=False)


# Health


async def test_an_engine_that_answers_200_is_well(serve: Serve, probes: Probes) -> None:
    server = await serve()
    assert await ask(probes, server.http()) == ""
    assert [request.splitlines()[0] for request in server.asked] == ["GET /health HTTP/1.1"]


@pytest.mark.parametrize(
    ("status", "body", "sentence"),
    [
        (503, {"error": {"message": "Loading model", "code": 503}}, "answers 503: Loading model"),
        (503, {"error": "model is loading"}, "answers 503: model is loading"),
        (503, {"status": "no slot available"}, "answers 503: no slot available"),
        (500, {"message": "out of memory"}, "answers 500: out of memory"),
        (503, b"Service Unavailable\n", "answers 503: Service Unavailable"),
        (503, "text in quotes", "answers 503: text in quotes"),
        (401, {"error": {"code": 401}}, "answers 401"),
        (404, b"", "answers 404"),
        (204, b"", "answers 204"),
        (502, b"<html>\n<body>Bad Gateway</body>\n</html>", "answers 502"),
        (503, b"x" * 121, "answers 503"),
        (503, {"error": "x" * 121}, "answers 503: " + "x" * 120),
        (503, {"error": ["a", "b"]}, "answers 503"),
        (503, [1], "answers 503"),
        (503, {}, "answers 503"),
        (503, {"error": None, "message": 7}, "answers 503"),
        (503, b'{"error": ' * 100_000, "answers 503"),
        (503, b"[" * 100_000, "answers 503"),
        (503, b"\x1b[31mred", "answers 503"),
    ],
)
async def test_any_other_answer_is_told_with_what_it_says(
    serve: Serve, probes: Probes, status: int, body: object, sentence: str
) -> None:
    server = await serve(health=answer(status, body))
    assert await ask(probes, server.http()) == sentence


async def test_a_redirect_is_not_followed(serve: Serve, probes: Probes) -> None:
    elsewhere = await serve()
    server = await serve(health=answer(302, b"", f"Location: http://{elsewhere.where}/health"))
    assert (await ask(probes, server.http()), elsewhere.asked) == ("answers 302", [])


async def test_a_proxy_of_the_environment_is_not_asked(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    proxy, server = await serve(), await serve()
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, f"http://{proxy.where}")
    probes = Probes()
    assert (await ask(probes, server.http()), len(server.asked), proxy.asked) == ("", 1, [])
    await probes.close()


async def test_nothing_of_one_engine_is_sent_to_another(serve: Serve, probes: Probes) -> None:
    server = await serve(health=answer(200, b"", "Set-Cookie: session=secret; Path=/"))
    for _ in range(2):
        await ask(probes, server.http())
    assert [name for request in server.asked for name in ("ookie", "uthorization") if name in request] == []


async def test_a_port_that_nobody_listens_on_is_told(serve: Serve, probes: Probes) -> None:
    server = await serve(away=True)
    assert await ask(probes, server.http()) == f"{server.where}: connection refused"


async def test_a_name_that_does_not_resolve_is_told(probes: Probes, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    assert await ask(probes, Http("http://leader:1", "/health", "")) == "leader:1: name or service not known"
    assert not await probes.is_listening("leader", 1)


@pytest.mark.parametrize("host", ["a..b", "x" * 64])
async def test_what_can_be_no_name_is_told(probes: Probes, host: str) -> None:
    assert await ask(probes, Http(f"http://{host}:1", "/health", "")) == f"{host}:1: no name of a host"
    assert not await probes.is_listening(host, 1)


async def test_an_engine_that_never_answers_is_told(serve: Serve, probes: Probes) -> None:
    server = await serve(health=silence)
    assert await ask(probes, server.http(timeout_s=SHORT_S)) == f"no answer from {server.where} in 0.05 s"


async def test_an_answer_that_does_not_come_to_an_end_is_none(serve: Serve, probes: Probes) -> None:
    server = await serve(health=trickle)
    assert await ask(probes, server.http(timeout_s=SHORT_S)) == f"no answer from {server.where} in 0.05 s"


async def test_an_endless_answer_is_read_to_a_bound(serve: Serve, probes: Probes) -> None:
    sent = 0
    over = asyncio.Event()

    async def flood(writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(b"HTTP/1.1 503 X\r\nContent-Length: 10737418240\r\n\r\n")
        try:
            while True:
                writer.write(b"x" * 65536)
                await writer.drain()
                sent += 65536
        finally:
            over.set()

    server = await serve(health=flood)
    assert await ask(probes, server.http()) == "answers 503"
    await over.wait()
    assert sent < 32 * 1024 * 1024  # the bound, and what is under way in between


@pytest.mark.parametrize(
    "data", [b"", b"SSH-2.0-OpenSSH_9.2\r\n", b"\0" * 100, b"HTTP/1.1 200 OK\r\nContent-Le"]
)
async def test_what_is_no_answer_is_told(serve: Serve, probes: Probes, data: bytes) -> None:
    server = await serve(health=raw(data))
    told = await ask(probes, server.http())
    assert (told.startswith(f"{server.where}: "), told.endswith(" instead of an answer")) == (True, True)


async def test_an_answer_that_breaks_off_is_none(serve: Serve, probes: Probes) -> None:
    server = await serve(health=raw(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"))
    assert await ask(probes, server.http()) == f"{server.where}: ClientPayloadError instead of an answer"


async def test_nothing_is_unpacked(serve: Serve, probes: Probes) -> None:
    body = gzip.compress(json.dumps({"error": "unpacked"}).encode())
    server = await serve(health=answer(503, body, "Content-Encoding: gzip"))
    assert await ask(probes, server.http()) == "answers 503"
    assert "Accept-Encoding: identity" in server.asked[0].split("\r\n")


async def test_an_engine_on_ipv6_is_asked(serve: Serve, probes: Probes) -> None:
    try:
        server = await serve(models=models("tiny"), host="::1")
    except OSError as error:
        pytest.skip(f"no IPv6 on this host: {error.strerror}")
    assert await ask(probes, server.http("tiny")) == ""
    assert await probes.is_listening("::1", server.port)
    away = await serve(host="::1", away=True)
    assert await ask(probes, away.http()) == f"[::1]:{away.port}: connection refused"


async def test_many_questions_leave_nothing_open(serve: Serve, probes: Probes) -> None:
    servers = [
        await serve(),
        await serve(health=silence),
        await serve(health=raw(b"\0")),
        await serve(health=answer(200, b"x" * 2_000_000)),
        await serve(away=True),
    ]
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        https = [server.http(timeout_s=SHORT_S) for server in servers for _ in range(5)]
        await asyncio.gather(*(ask(probes, http) for http in https))
    for server in servers:
        await server.close()
    assert len(os.listdir("/proc/self/fd")) <= before


# The model


async def test_the_right_model_may_be_among_others(serve: Serve, probes: Probes) -> None:
    server = await serve(models=models("base", "lora-1", "lora-2"))
    for name in ("base", "lora-2"):
        assert await ask(probes, server.http(name)) == ""


async def test_the_wrong_model_is_named(serve: Serve, probes: Probes) -> None:
    server = await serve(models=models("base", "lora"))
    assert await ask(probes, server.http("other")) == "serves base, lora, expected other"
    assert await ask(probes, server.http("bas")) == "serves base, lora, expected bas"


async def test_models_are_not_asked_for_where_none_is_expected(serve: Serve, probes: Probes) -> None:
    server = await serve()
    await ask(probes, server.http())
    assert len(server.asked) == 1


async def test_models_are_not_asked_for_before_the_engine_is_well(serve: Serve, probes: Probes) -> None:
    server = await serve(health=answer(503), models=models("tiny"))
    assert (await ask(probes, server.http("tiny")), len(server.asked)) == ("answers 503", 1)


@pytest.mark.parametrize(
    ("models", "sentence"),
    [
        (answer(401), "needs an API key (401)"),
        (answer(403, {"error": "no"}), "needs an API key (403)"),
        (answer(404, {"detail": "Not Found"}), "/v1/models answers 404"),
        (answer(500, {"error": {"message": "broken"}}), "/v1/models answers 500: broken"),
        (answer(302, b"", "Location: /health"), "/v1/models answers 302"),
        (models(), "serves no model, expected tiny"),
        (answer(200, b"{"), "serves no model, expected tiny"),
        (answer(200, b"[" * 100_000), "serves no model, expected tiny"),
        (answer(200, b"\xff"), "serves no model, expected tiny"),
        (answer(200, ["tiny"]), "serves no model, expected tiny"),
        (answer(200, {"data": "tiny"}), "serves no model, expected tiny"),
        (answer(200, {"data": {"id": "tiny"}}), "serves no model, expected tiny"),
        (answer(200, {"data": [{"name": "tiny"}, "tiny", None]}), "serves no model, expected tiny"),
        (models(7, None), "serves 7, None, expected tiny"),
        (models("x" * 500_000), "serves " + "x" * 120 + ", expected tiny"),
    ],
)
async def test_whatever_else_is_said_of_models_is_told(
    serve: Serve, probes: Probes, models: Answer, sentence: str
) -> None:
    server = await serve(models=models)
    assert await ask(probes, server.http("tiny")) == sentence


async def test_a_long_list_that_comes_in_pieces_is_read_to_its_end(serve: Serve, probes: Probes) -> None:
    names = [f"lora-{number:05}" for number in range(10_000)]
    body = json.dumps({"data": [{"id": name} for name in names]}).encode()

    async def pieces(writer: asyncio.StreamWriter) -> None:
        writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n".encode())
        for at in range(0, len(body), 100_000):
            await asyncio.sleep(0.001)
            writer.write(body[at : at + 100_000])
            await writer.drain()

    server = await serve(models=pieces)
    assert await ask(probes, server.http("lora-09999")) == ""


async def test_a_server_that_ends_between_two_questions_is_told(serve: Serve, probes: Probes) -> None:
    server = await serve()

    async def last(writer: asyncio.StreamWriter) -> None:
        server.stop_listening()
        await answer(200)(writer)

    server._answers["/health"] = last
    assert await ask(probes, server.http("tiny")) == f"{server.where}: connection refused"


# Who listens


async def verified(probes: Probes, server: Served) -> str:
    return await probes.ask(server.http(), GROUP, verify_listener=True)


async def test_a_listener_of_the_shard_is_right(serve: Serve, probes: Probes, groups: Cgroups) -> None:
    groups.put(GROUP, {1, os.getpid()})
    assert await verified(probes, await serve()) == ""


async def test_a_stranger_on_the_port_is_named(serve: Serve, probes: Probes, groups: Cgroups) -> None:
    server = await serve()
    name = psutil.Process().name()
    assert await verified(probes, server) == (
        f"another process (pid {os.getpid()}, {name}) listens on {server.port}"
    )


async def test_a_stranger_of_another_namespace_has_no_name(
    serve: Serve, probes: Probes, groups: Cgroups, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = await serve()
    unknown = SimpleNamespace(pid=None, status="LISTEN", laddr=SimpleNamespace(port=server.port))
    monkeypatch.setattr(probe, "_connections", lambda: [unknown])
    assert await verified(probes, server) == (
        f"another process (of another user or namespace) listens on {server.port}"
    )


async def test_a_shard_that_listens_elsewhere_is_told_where(
    serve: Serve, probes: Probes, groups: Cgroups
) -> None:
    groups.put(GROUP, {os.getpid()})
    server, elsewhere = await serve(), await serve()

    async def last(writer: asyncio.StreamWriter) -> None:
        server.stop_listening()
        await answer(200)(writer)

    server._answers["/health"] = last
    assert await verified(probes, server) == f"listens on {elsewhere.port}, expected {server.port}"


async def test_a_shard_that_does_not_listen_is_told(serve: Serve, probes: Probes, groups: Cgroups) -> None:
    server = await serve()

    async def last(writer: asyncio.StreamWriter) -> None:
        server.stop_listening()
        await answer(200)(writer)

    server._answers["/health"] = last
    assert await verified(probes, server) == f"no process of this shard listens on {server.port}"


async def test_a_process_that_ends_meanwhile_is_passed_over(
    serve: Serve, probes: Probes, groups: Cgroups
) -> None:
    groups.put(GROUP, {2**22 - 1, os.getpid()})
    assert await verified(probes, await serve()) == ""


async def test_the_listener_is_not_looked_for_before_the_engine_is_well(
    serve: Serve, probes: Probes, groups: Cgroups
) -> None:
    assert await verified(probes, await serve(health=answer(503))) == "answers 503"


# Ports


async def test_a_port_is_listened_on_or_not(serve: Serve, probes: Probes) -> None:
    here, away = await serve(), await serve(away=True)
    found = [await probes.is_listening("127.0.0.1", server.port) for server in (here, away)]
    assert found == [True, False]


async def test_a_port_that_takes_no_connection_is_not_listened_on(hasty: Probes) -> None:
    with socket.socket() as full, socket.socket() as first:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        first.connect(full.getsockname())
        assert not await hasty.is_listening(*full.getsockname())


async def test_open_connections_are_counted(serve: Serve, probes: Probes) -> None:
    server, other = await serve(health=silence), await serve(health=silence)
    assert await probes.connections(server.http()) == 0
    clients = [socket.create_connection((to.host, to.port)) for to in (server, server, other)]
    assert await probes.connections(server.http()) == 2
    for client in clients:
        client.close()


@pytest.mark.parametrize(
    ("url", "port"), [("http://a:81", 81), ("http://a", 80), ("https://a", 443), ("http://[::1]:82", 82)]
)
def test_the_port_is_that_of_the_url(url: str, port: int) -> None:
    assert probe._port(Http(url, "/", "")) == port
