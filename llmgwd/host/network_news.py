"""News of this node's links, addresses and routes, as the kernel tells them (rtnetlink(7))."""

import asyncio
import errno
import socket
from types import TracebackType
from typing import Self

# RTMGRP_LINK, _IPV4_IFADDR, _IPV4_ROUTE, _IPV6_IFADDR, _IPV6_ROUTE of linux/rtnetlink.h
GROUPS = 0x1 | 0x10 | 0x40 | 0x100 | 0x400
_LARGEST = 65_536


class NetworkNews:
    """From `with NetworkNews() as news:` on nothing is missed. What has changed is not told: look."""

    def __init__(self, groups: int = GROUPS) -> None:
        kind = socket.SOCK_RAW | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC
        self._socket = socket.socket(socket.AF_NETLINK, kind, socket.NETLINK_ROUTE)
        try:
            self._socket.bind((0, groups))
        except OSError:
            self._socket.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._socket.close()

    async def wait(self, *, quiet_s: float, longest_s: float) -> None:
        """Returns when there was news, and then none for `quiet_s`; or after `longest_s` of it."""
        await self._receive()
        loop = asyncio.get_running_loop()
        until = loop.time() + longest_s
        while (left := until - loop.time()) > 0:
            try:
                async with asyncio.timeout(min(quiet_s, left)):
                    await self._receive()
            except TimeoutError:
                return

    async def _receive(self) -> None:
        try:
            await asyncio.get_running_loop().sock_recv(self._socket, _LARGEST)
        except OSError as error:
            if error.errno != errno.ENOBUFS:  # more than could be kept, which is news enough
                raise
        await asyncio.sleep(0)  # of a flood nothing has to be waited for; others have their turn
