"""The ends of systemd's jobs, which may be told before the name of the job is."""

import asyncio

from llmgwd.bus.connection import BusLost


class EndedJobs:
    """Results by job, while a unit is started."""

    def __init__(self) -> None:
        self._results: dict[str, str] = {}
        self._news = asyncio.Event()
        self._missed = False

    def add(self, job: str, result: str) -> None:
        self._results[job] = result
        self._news.set()

    def miss(self) -> None:
        """The bus was lost: an end may have been told to nobody."""
        self._missed = True
        self._news.set()

    async def wait(self, job: str) -> str:
        """Raises BusLost."""
        while job not in self._results:
            if self._missed:
                raise BusLost(f"the bus was lost before {job} ended")
            self._news.clear()
            await self._news.wait()
        return self._results[job]
