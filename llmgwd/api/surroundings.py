"""What is known of this node, kept true: looked for at a start, at a reload, when the network changes."""

import asyncio
import logging
from collections.abc import Callable, Collection
from dataclasses import replace

from llmgwd.api.about import About, look_again, look_around
from llmgwd.config import Config
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
        self._config = Config()
        self.about: About | None = None

    async def look(self, config: Config) -> About:
        """Everything, GPUs included, as `config` wants it seen; takes seconds where there are GPUs."""
        async with self._one_at_a_time:
            self._config = config
            found = await asyncio.to_thread(look_around, config, self._engines)
            return self._remember(found)

    async def follow(self, news: NetworkNews, changed: Callable[[About], None]) -> None:
        """Addresses come and go; with DHCP the first one, too, may come after the daemon has started."""
        while True:
            await news.wait(quiet_s=_QUIET_S, longest_s=_LONGEST_S)
            async with self._one_at_a_time:
                before = self.about
                if before is None:
                    continue
                about = self._remember(
                    await asyncio.to_thread(look_again, self._config, self._engines, before)
                )
            if about != before:
                log.info(
                    "the network has changed, this node is %s", about.management_address or "unreachable"
                )
                changed(about)

    def _remember(self, found: About) -> About:
        said = self.about.warnings if self.about else ()
        about = replace(found, warnings=(*self._complaints, *found.warnings))
        for warning in about.warnings:
            if warning not in said:
                log.warning("this node: %s", warning)
        self.about = about
        return about
