"""What is known of this node, kept true: looked for at a start, at a reload, when the network changes."""

import asyncio
import logging
from collections.abc import Callable, Collection
from dataclasses import replace

from llmgwd.config import Config
from llmgwd.host.about import About, look_again, look_around
from llmgwd.host.network_news import NetworkNews

log = logging.getLogger(__name__)

# A change comes as a handful of news; of a network that never rests they never end.
_QUIET_S = 0.5
_LONGEST_S = 5.0


class Surroundings:
    """`engines`: the names of those that there are. `complaints`: what else looks wrong."""

    def __init__(self, engines: Collection[str], complaints: tuple[str, ...]) -> None:
        self._engines = engines
        self._complaints = complaints
        self._one_at_a_time = asyncio.Lock()
        self._warned: tuple[str, ...] = ()

    async def look(self, config: Config) -> About:
        """Everything, GPUs included, as `config` wants it seen; takes seconds where there are GPUs."""
        async with self._one_at_a_time:
            self._config = config
            self._last = self._complain(await asyncio.to_thread(look_around, config, self._engines))
            return self._last

    async def follow(self, news: NetworkNews, changed: Callable[[About], None]) -> None:
        """From the first look on: addresses come and go; with DHCP even the first one comes late."""
        while True:
            await news.wait(quiet_s=_QUIET_S, longest_s=_LONGEST_S)
            async with self._one_at_a_time:
                before = self._last
                try:
                    found = await asyncio.to_thread(look_again, self._config, self._engines, before)
                except OSError as error:
                    log.warning("cannot look at the network: %s", error)
                    continue
                self._last = self._complain(found)
                if self._last != before:
                    _tell(before, self._last)
                    changed(self._last)

    def _complain(self, found: About) -> About:
        """Each thing once, while it stays so."""
        about = replace(found, warnings=(*self._complaints, *found.warnings))
        for warning in about.warnings:
            if warning not in self._warned:
                log.warning("this node: %s", warning)
        self._warned = about.warnings
        return about


def _tell(before: About, now: About) -> None:
    # Other interfaces come and go with every container.
    if _reached_by(before) != _reached_by(now):
        log.info("this node: reached by %s now, before by %s", _reached_by(now), _reached_by(before))


def _reached_by(about: About) -> str:
    if not about.management_address:
        return "no address"
    return f"{about.management_address} ({about.management_interface or 'no interface'})"
