"""The kernel tells of changes; in a network namespace of its own, so that nobody else's are heard."""

import asyncio
import errno
import socket
import subprocess
import sys

import pytest

from llmgwd.host.network_news import GROUPS, NetworkNews

# `ip` is waited for: what it changed was told before it ended.
SCRIPT = """
import asyncio, subprocess
from llmgwd.host.network_news import NetworkNews

def ip(change):
    subprocess.run(["ip", *change.split()], check=True)

async def main():
    for change in {before!r}:
        ip(change)
    with NetworkNews({groups}) as news:
        for change in {changes!r}:
            waiting = asyncio.ensure_future(news.wait(quiet_s=0.05, longest_s=5))
            await asyncio.sleep(0)
            assert not waiting.done()
            ip(change)
            await asyncio.wait_for(waiting, 10)
        print("heard", end="")

asyncio.run(main())
"""
UP = ["link set lo up", "address add fd00::1/64 dev lo"]
LINK, IPV4_ADDRESS, IPV4_ROUTE, IPV6_ADDRESS, IPV6_ROUTE = 0x1, 0x10, 0x40, 0x100, 0x400
# Each is told to its group alone.
ALONE = {
    LINK: "link set lo mtu 1500",
    IPV4_ROUTE: "route add 10.8.0.0/16 dev lo",
    IPV6_ROUTE: "-6 route add fd01::/64 dev lo",
}
ADDRESSES = {
    IPV4_ADDRESS: "address add 10.231.7.9/24 dev lo",
    IPV6_ADDRESS: "address add fd00::9/64 dev lo",
}


@pytest.mark.parametrize("change", ALONE.values())
def test_each_change_is_heard(change: str) -> None:
    assert listened([change]) == ("heard", "")


@pytest.mark.parametrize(("group", "change"), ADDRESSES.items())
def test_a_change_of_an_address_is_heard_even_if_it_makes_no_route(group: int, change: str) -> None:
    assert GROUPS & group
    assert listened([change, change.replace(" add ", " delete ")], group) == ("heard", "")


def test_it_listens_to_what_it_is_asked_to_or_to_everything() -> None:
    with NetworkNews(LINK) as links, NetworkNews() as everything:
        heard = [news._socket.getsockname()[1] for news in (links, everything)]
    assert heard == [LINK, LINK | IPV4_ADDRESS | IPV4_ROUTE | IPV6_ADDRESS | IPV6_ROUTE]


def test_several_are_heard_one_after_the_other() -> None:
    assert listened([*ADDRESSES.values(), *ALONE.values()]) == ("heard", "")


def listened(changes: list[str], groups: int = GROUPS) -> tuple[str, str]:
    script = SCRIPT.format(before=UP, changes=changes, groups=groups)
    told = subprocess.run(
        ["unshare", "--net", sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if "Operation not permitted" in told.stderr:
        pytest.skip("no network namespace of its own can be made without root")
    return told.stdout, told.stderr


async def test_a_network_that_never_rests_is_told_of_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    hear(monkeypatch)
    with NetworkNews() as news:
        await asyncio.wait_for(news.wait(quiet_s=1, longest_s=0.05), 10)


async def test_more_than_could_be_kept_is_news_too(monkeypatch: pytest.MonkeyPatch) -> None:
    lost = [OSError(errno.ENOBUFS, "No buffer space available")]
    hear(monkeypatch, *lost)
    with NetworkNews() as news:
        await asyncio.wait_for(news.wait(quiet_s=1, longest_s=0.05), 10)
    assert lost[0].__traceback__ is not None


async def test_any_other_error_is_not_taken_for_news(monkeypatch: pytest.MonkeyPatch) -> None:
    error = OSError(errno.ENETDOWN, "Network is down")
    hear(monkeypatch, error)
    with NetworkNews() as news, pytest.raises(OSError, match="Network is down") as raised:
        await asyncio.wait_for(news.wait(quiet_s=1, longest_s=5), 10)
    assert raised.value is error


async def test_others_have_their_turn_while_the_network_never_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    heard = hear(monkeypatch)
    with NetworkNews() as news:
        waiting = asyncio.ensure_future(news.wait(quiet_s=1, longest_s=60))
        turns = 0
        while turns < 20:
            await asyncio.sleep(0)
            turns += 1
        waiting.cancel()
    assert len(heard) <= turns


def test_a_socket_that_cannot_be_bound_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    class Unbindable(socket.socket):
        def __init__(self, *how: int) -> None:
            super().__init__(*how)
            made.append(self)

        def bind(self, _: object) -> None:
            raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(socket, "socket", Unbindable)
    with pytest.raises(OSError, match="Operation not permitted"):
        NetworkNews()
    assert [one.fileno() for one in made] == [-1]


def hear(monkeypatch: pytest.MonkeyPatch, *errors: OSError) -> list[int]:
    """News that is always there, after these errors; gives how much of it was taken."""
    taken: list[int] = []
    coming = list(errors)

    async def at_once(_: socket.socket, size: int) -> bytes:
        taken.append(size)
        if coming:
            raise coming.pop(0)
        return b"news"

    monkeypatch.setattr(asyncio.get_running_loop(), "sock_recv", at_once)
    return taken
