"""What is known of this node follows its network, and each thing is said once."""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from llmgwd.config import AgentConfig, Config
from llmgwd.host import surroundings
from llmgwd.host.about import About
from llmgwd.host.surroundings import Surroundings

ABOUT = About(
    version="0.1",
    node_name="node1",
    management_address="10.0.0.1",
    management_interface="eth0",
    nccl_ib_gid_index=-1,
    rdma=(),
    gpus=(),
    engines=("vllm",),
    warnings=(),
    addresses=("127.0.0.1", "10.0.0.1"),
    ephemeral_ports=(32_768, 60_999),
)
MOVED = replace(ABOUT, management_address="10.0.0.2", management_interface="bond0")
BROKEN = "engine x of package x cannot be used: no"


class FakeNews:
    """`come` makes some, and returns when all that follows from it has followed."""

    def __init__(self) -> None:
        self._there = asyncio.Event()
        self._wanted = asyncio.Event()

    async def wait(self, *, quiet_s: float, longest_s: float) -> None:
        assert 0 < quiet_s < longest_s
        self._wanted.set()
        await self._there.wait()
        self._there.clear()

    async def come(self) -> None:
        async with asyncio.timeout(10):
            await self._wanted.wait()
            self._wanted.clear()
            self._there.set()
            await self._wanted.wait()


class Here:
    """A node as it is at the moment, one who follows it, and what that one was told."""

    def __init__(self, *complaints: str) -> None:
        self.now: About | OSError = ABOUT
        self.asked: list[tuple[str, Config, object]] = []
        self.told: list[About] = []
        self.news = FakeNews()
        self.surroundings = Surroundings(("vllm",), complaints)
        self.look: Callable[[], None] = lambda: None

    def around(self, config: Config, engines: object) -> About:
        self.asked.append(("around", config, engines))
        return self._found()

    def again(self, config: Config, engines: object, before: About) -> About:
        self.asked.append(("again", config, before))
        return self._found()

    def _found(self) -> About:
        self.look()
        if isinstance(self.now, OSError):
            raise self.now
        return self.now

    async def change(self, now: About | OSError) -> None:
        self.now = now
        await self.news.come()

    @asynccontextmanager
    async def followed(self) -> AsyncIterator[None]:
        await self.surroundings.look(Config())
        task = asyncio.ensure_future(self.surroundings.follow(self.news, self.told.append))  # type: ignore[arg-type]
        try:
            yield
            assert not task.done()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Callable[..., Here]:
    caplog.set_level(logging.INFO)

    def one(*complaints: str) -> Here:
        made = Here(*complaints)
        monkeypatch.setattr(surroundings, "look_around", made.around)
        monkeypatch.setattr(surroundings, "look_again", made.again)
        return made

    return one


def said(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    lines = [(record.levelname, record.getMessage()) for record in caplog.records]
    caplog.clear()
    return lines


async def test_a_look_gives_what_is_found_with_the_complaints_in_front(
    here: Callable[..., Here], caplog: pytest.LogCaptureFixture
) -> None:
    node, config = here(BROKEN), Config(agent=AgentConfig(log_lines=7))
    node.now = replace(ABOUT, warnings=("eth0 is down",))
    assert await node.surroundings.look(config) == replace(ABOUT, warnings=(BROKEN, "eth0 is down"))
    assert node.asked == [("around", config, ("vllm",))]
    assert said(caplog) == [
        ("WARNING", f"this node: {BROKEN}"),
        ("WARNING", "this node: eth0 is down"),
    ]


async def test_news_of_nothing_that_is_different_is_told_to_nobody(
    here: Callable[..., Here], caplog: pytest.LogCaptureFixture
) -> None:
    node = here(BROKEN)
    async with node.followed():
        said(caplog)
        await node.change(ABOUT)
    before = replace(ABOUT, warnings=(BROKEN,))
    assert (node.told, said(caplog)) == ([], [])
    assert node.asked[1:] == [("again", Config(), before)]


async def test_another_address_is_told_once_and_is_one_line(
    here: Callable[..., Here], caplog: pytest.LogCaptureFixture
) -> None:
    node = here(BROKEN)
    async with node.followed():
        said(caplog)
        await node.change(MOVED)
        await node.change(MOVED)
    assert node.told == [replace(MOVED, warnings=(BROKEN,))]
    line = "this node: reached by 10.0.0.2 (bond0) now, before by 10.0.0.1 (eth0)"
    assert said(caplog) == [("INFO", line)]


@pytest.mark.parametrize(
    ("values", "by"),
    [
        ({"management_interface": "bond0"}, "10.0.0.1 (bond0)"),
        ({"management_interface": ""}, "10.0.0.1 (no interface)"),
        ({"management_address": "", "management_interface": ""}, "no address"),
    ],
)
async def test_a_line_says_what_it_is_reached_by(
    here: Callable[..., Here], caplog: pytest.LogCaptureFixture, values: dict[str, str], by: str
) -> None:
    node = here()
    other = replace(ABOUT, **values)  # type: ignore[arg-type]
    async with node.followed():
        await node.change(other)
        await node.change(ABOUT)
    assert node.told == [other, ABOUT]
    assert said(caplog) == [
        ("INFO", f"this node: reached by {by} now, before by 10.0.0.1 (eth0)"),
        ("INFO", f"this node: reached by 10.0.0.1 (eth0) now, before by {by}"),
    ]


async def test_an_address_of_another_interface_is_told_and_is_no_line(
    here: Callable[..., Here], caplog: pytest.LogCaptureFixture
) -> None:
    node = here()
    other = replace(ABOUT, addresses=("127.0.0.1", "10.0.0.1", "172.17.0.1"))
    async with node.followed():
        await node.change(other)
    assert (node.told, said(caplog)) == ([other], [])


async def test_a_warning_is_a_line_when_it_comes_and_when_it_comes_again(
    here: Callable[..., Here], caplog: pytest.LogCaptureFixture
) -> None:
    node = here(BROKEN)
    down, line = replace(ABOUT, warnings=("eth0 is down",)), ("WARNING", "this node: eth0 is down")
    async with node.followed():
        assert said(caplog) == [("WARNING", f"this node: {BROKEN}")]
        await node.change(down)
        assert said(caplog) == [line]
        await node.change(replace(down, addresses=("127.0.0.1",)))
        await node.surroundings.look(Config())
        assert said(caplog) == []
        await node.change(ABOUT)
        assert said(caplog) == []
        await node.change(down)
        assert said(caplog) == [line]


async def test_a_look_that_fails_is_one_line_and_the_next_one_is_taken(
    here: Callable[..., Here], caplog: pytest.LogCaptureFixture
) -> None:
    node = here()
    async with node.followed():
        await node.change(OSError(24, "Too many open files"))
        assert (node.told, said(caplog)) == (
            [],
            [("WARNING", "cannot look at the network: [Errno 24] Too many open files")],
        )
        await node.change(MOVED)
    assert node.told == [MOVED]
    assert node.asked[-1] == ("again", Config(), ABOUT)


async def test_what_is_looked_at_again_is_looked_at_by_the_last_configuration(
    here: Callable[..., Here],
) -> None:
    node, later = here(), Config(agent=AgentConfig(log_lines=7))
    async with node.followed():
        await node.surroundings.look(later)
        await node.change(MOVED)
    assert node.asked[-1] == ("again", later, ABOUT)


async def test_a_reload_and_the_news_do_not_mix(here: Callable[..., Here]) -> None:
    node, later = here(), Config(agent=AgentConfig(log_lines=7))
    looking, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        looking.set()
        assert go_on.wait(10)

    async with node.followed():
        node.look, node.now = hold, MOVED
        news = asyncio.ensure_future(node.news.come())
        assert await asyncio.to_thread(looking.wait, 10)
        reload = asyncio.ensure_future(node.surroundings.look(later))
        await asyncio.sleep(0.01)
        assert [how for how, _, _ in node.asked] == ["around", "again"]
        go_on.set()
        await news
        assert await reload == MOVED
        node.look = lambda: None
        await node.change(ABOUT)
    assert [how for how, _, _ in node.asked] == ["around", "again", "around", "again"]
    assert node.asked[-1] == ("again", later, MOVED)
    assert node.told == [MOVED, ABOUT]
