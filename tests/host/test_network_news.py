"""The kernel tells of changes; in a network namespace of its own, so that nobody else's are heard."""

import asyncio
import subprocess
import sys

import pytest

from llmgwd.host.network_news import NetworkNews

SCRIPT = """
import asyncio, subprocess
from llmgwd.host.network_news import NetworkNews

def ip(*words):
    subprocess.run(["ip", *words], check=True)

async def main():
    with NetworkNews() as news:
        for change in {changes!r}:
            waiting = asyncio.ensure_future(news.wait(quiet_s=0.05, longest_s=5))
            await asyncio.sleep(0)
            assert not waiting.done()
            ip(*change)
            await asyncio.wait_for(waiting, 10)
        print("heard", end="")

asyncio.run(main())
"""
CHANGES = [
    ["link", "set", "lo", "up"],
    ["address", "add", "10.231.7.9/24", "dev", "lo"],
    ["address", "add", "fd00::9/64", "dev", "lo"],
    ["route", "add", "10.232.0.0/16", "dev", "lo"],
    ["address", "delete", "10.231.7.9/24", "dev", "lo"],
]


def test_each_change_is_heard() -> None:
    script = SCRIPT.format(changes=CHANGES)
    told = subprocess.run(
        ["unshare", "--net", sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if "Operation not permitted" in told.stderr:
        pytest.skip("no network namespace of its own can be made without root")
    assert (told.stdout, told.stderr) == ("heard", "")


async def test_a_network_that_never_rests_is_told_of_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    async def at_once(_: NetworkNews) -> None:
        await asyncio.sleep(0)

    monkeypatch.setattr(NetworkNews, "_receive", at_once)
    with NetworkNews() as news:
        await asyncio.wait_for(news.wait(quiet_s=1, longest_s=0.05), 10)
