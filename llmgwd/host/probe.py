"""Questions to an engine over the network: does it serve its model, and is it the one that listens?"""

import asyncio
import contextlib
import json
import os
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import psutil

from llmgwd.engines.plan import Http
from llmgwd.host.cgroup import Cgroup
from llmgwd.host.resolver import Address, Resolver

_CONNECT_S = 2.0
_LARGEST_ANSWER = 1024 * 1024
_SHOWN = 120


class Probes:
    """One per daemon; `close` when it ends. Never a proxy, never a redirect, never a body without end."""

    def __init__(self) -> None:
        self._resolver = Resolver()
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                force_close=True, limit=64, ssl=False, resolver=self._resolver, use_dns_cache=False
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"Accept-Encoding": "identity"},
            auto_decompress=False,  # a megabyte can be made to hold a gigabyte
            trust_env=False,
        )

    async def close(self) -> None:
        await self._session.close()

    async def ask(self, http: Http, control_group: str, *, verify_listener: bool) -> str:
        """What stands between the engine and serving its model, as a sentence; empty when nothing does."""
        status, body = await self._get(http.base_url + http.health_path, http.timeout_s)
        if status != 200:
            return body if status == 0 else f"answers {status}{_message(body)}"
        if verify_listener and (stranger := await asyncio.to_thread(_stranger, http, control_group)):
            return stranger
        return await self._ask_models(http) if http.served_model else ""

    async def _ask_models(self, http: Http) -> str:
        status, body = await self._get(http.base_url + "/v1/models", http.timeout_s)
        if status in {401, 403}:
            return f"needs an API key ({status})"
        if status != 200:
            return body if status == 0 else f"/v1/models answers {status}{_message(body)}"
        names = _model_names(body)
        if http.served_model in names:
            return ""
        return f"serves {', '.join(names)[:_SHOWN] or 'no model'}, expected {http.served_model}"

    async def is_listening(self, host: str, port: int) -> bool:
        """Whether something accepts a connection there. A name that does not resolve is not listening yet."""
        try:
            async with asyncio.timeout(_CONNECT_S):
                return await _any_accepts(await self._resolver.addresses(host), port)
        except (OSError, TimeoutError, UnicodeError):  # a host name can be one that no resolver takes
            return False

    async def connections(self, http: Http) -> int:
        """Established connections to the serving port."""
        return await asyncio.to_thread(_established, _port(http))

    async def _get(self, url: str, timeout_s: float) -> tuple[int, str]:
        """Status and body; status 0 with a sentence where there was no answer."""
        where = urlsplit(url).netloc
        timeout = aiohttp.ClientTimeout(total=timeout_s)
        try:
            async with self._session.get(url, allow_redirects=False, timeout=timeout) as response:
                body = bytearray()
                while len(body) < _LARGEST_ANSWER and (piece := await response.content.readany()):
                    body += piece
                return response.status, body.decode("utf-8", "replace")
        except TimeoutError:
            return 0, f"no answer from {where} in {timeout_s:g} s"
        except aiohttp.ClientConnectorError as error:
            return 0, f"{where}: {_why(error.os_error)}"
        except (aiohttp.ClientError, OSError) as error:
            return 0, f"{where}: {type(error).__name__} instead of an answer"
        except UnicodeError:
            return 0, f"{where}: no name of a host"


async def _any_accepts(addresses: Iterable[Address], port: int) -> bool:
    """All at once: one that leads nowhere would use up the time of the others."""
    tries = [asyncio.ensure_future(_accepts(address, port)) for address in addresses]
    try:
        for first in asyncio.as_completed(tries):
            if await first:
                return True
        return False
    finally:
        for each in tries:
            each.cancel()


async def _accepts(address: Address, port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection(address.host, port, family=address.family)
    except OSError:
        return False
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    return True


def _why(error: OSError) -> str:
    # asyncio puts words and the address into `strerror`; numbers of the resolver's own are negative
    number = error.errno or 0
    return (os.strerror(number) if number > 0 else error.strerror or "cannot connect").lower()


def _port(http: Http) -> int:
    parts = urlsplit(http.base_url)
    return parts.port or (443 if parts.scheme == "https" else 80)


def _message(body: str) -> str:
    """`: Loading model`, where the body is JSON that says something, or a short line of text."""
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        text = body.strip()
        return f": {text}" if text and len(text) <= _SHOWN and "\n" not in text and text.isprintable() else ""
    while isinstance(content, dict):
        content = content.get("error") or content.get("message") or content.get("status") or ""
    return f": {content[:_SHOWN]}" if isinstance(content, str) and content else ""


def _model_names(body: str) -> list[str]:
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        return []
    data = content.get("data") if isinstance(content, dict) else None
    if not isinstance(data, list):
        return []
    return [str(entry["id"]) for entry in data if isinstance(entry, dict) and "id" in entry]


def _stranger(http: Http, control_group: str) -> str:
    """Empty where the shard's own cgroup listens on the port, else who does instead."""
    port = _port(http)
    ours = set(Cgroup(control_group).pids())
    elsewhere: set[int] = set()
    for pid in ours:
        for listening in _listening(pid):
            if listening == port:
                return ""
            elsewhere.add(listening)
    others = {connection.pid for connection in _connections() if _listens(connection, port)} - ours
    if others:
        return f"another process ({', '.join(sorted(map(_named, others)))}) listens on {port}"
    if elsewhere:
        return f"listens on {', '.join(map(str, sorted(elsewhere)))}, expected {port}"
    return f"no process of this shard listens on {port}"


def _listening(pid: int) -> Iterator[int]:
    with contextlib.suppress(psutil.Error, OSError):
        process = psutil.Process(pid)
        # psutil 6 renamed `connections`
        sockets = process.net_connections if hasattr(process, "net_connections") else process.connections
        for connection in sockets(kind="tcp"):
            if connection.status == psutil.CONN_LISTEN:
                yield connection.laddr.port


def _connections() -> list[Any]:
    try:
        return psutil.net_connections(kind="tcp")
    except (psutil.Error, OSError):
        return []


def _listens(connection: Any, port: int) -> bool:
    return bool(connection.status == psutil.CONN_LISTEN and connection.laddr.port == port)


def _established(port: int) -> int:
    return sum(
        connection.status == psutil.CONN_ESTABLISHED and connection.laddr.port == port
        for connection in _connections()
    )


def _named(pid: int | None) -> str:
    if pid is None:
        return "of another user or namespace"
    try:
        return f"pid {pid}, {psutil.Process(pid).name()}"
    except psutil.Error:
        return f"pid {pid}"
