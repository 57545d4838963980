"""llmgwd: builds each part, hands it its parts, runs until it is told to end. Engines outlive it."""

import argparse
import asyncio
import contextlib
import logging
import signal
import sys
import time
from collections.abc import Coroutine
from importlib.metadata import version
from pathlib import Path

from llmgwd.api import paths
from llmgwd.api.face import Face, error_of
from llmgwd.bus.calls import Caller
from llmgwd.bus.connection import BusLost, CallFailed, CallTimedOut, Connection, NameTaken
from llmgwd.bus.objects import Objects
from llmgwd.config import Config
from llmgwd.engines.registry import Engines
from llmgwd.host import cgroup, process
from llmgwd.host.about import About
from llmgwd.host.engine_packages import Brought, find_engines
from llmgwd.host.journal import synchronize
from llmgwd.host.journal_reader import EngineLog
from llmgwd.host.launcher import Launcher
from llmgwd.host.logging import setup_logging
from llmgwd.host.network_news import NetworkNews
from llmgwd.host.notify import Notifier, watchdog_interval_s
from llmgwd.host.probe import Probes
from llmgwd.host.records import RecordStore, StoreTaken
from llmgwd.host.settings import Places
from llmgwd.host.surroundings import Surroundings
from llmgwd.host.systemd import Systemd
from llmgwd.model.errors import InvalidConfig
from llmgwd.model.lifecycle import State
from llmgwd.supervisor.node import Node
from llmgwd.supervisor.planning import Planner
from llmgwd.supervisor.ports import Timing, World

log = logging.getLogger("llmgwd")

_SCOPES_AT_ONCE = 16
# A bus that is being rejoined is no reason to be restarted; one that stays away is.
_BUS_GRACE_S = 60.0
_PEER = "org.freedesktop.DBus.Peer"


class CannotRun(Exception):  # noqa: N818
    """One sentence: why there is no daemon. `status` is its exit status."""

    status = 1


class BadConfiguration(CannotRun):
    """It would not run the next time either (sysexits.h, EX_CONFIG)."""

    status = 78


class Daemon:
    """One run. `places` says where its configuration and records are, and whose systemd it talks to."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._brought = find_engines()
        self._engines = Engines(self._brought.engines)
        self._surroundings = Surroundings(tuple(self._engines), self._brought.complaints)
        self._config = _read(places, self._brought)
        self._notifier = Notifier()
        self._end = asyncio.Event()
        self._background: set[asyncio.Task[None]] = set()
        which = "session" if places.user_mode else "system"
        self._bus = Connection(which, name=paths.SERVICE)
        # Calls to systemd have a connection of their own: clients of ours can't hold them up.
        self._systemd_bus = Connection(which)

    async def run(self) -> None:
        """Raises CannotRun. Returns when the daemon was asked to end."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._end.set)
        loop.add_signal_handler(signal.SIGHUP, self._reload_by_signal)
        store = RecordStore(Path(self._config.agent.state_dir))
        try:
            store.open()
            await self._bus.connect()
            await self._systemd_bus.connect()
        except (OSError, StoreTaken) as error:
            raise CannotRun(str(error)) from error
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(self._bus.close)
            stack.push_async_callback(self._systemd_bus.close)
            await self._serve(store, stack)

    async def _serve(self, store: RecordStore, stack: contextlib.AsyncExitStack) -> None:
        agent = self._config.agent
        systemd = Systemd(self._systemd_bus)
        await systemd.open()
        probes = Probes()
        stack.push_async_callback(probes.close)
        self._launcher = Launcher(self._config, store)
        self._world = World(
            scopes=systemd,
            launcher=self._launcher,
            records=store,
            probes=probes,
            logs=EngineLog(agent.journal_namespace),
            timing=_timing(self._config),
            starts=asyncio.Semaphore(_SCOPES_AT_ONCE),
            slice=agent.slice,
            boot_id=process.boot_id(),
            synchronize=lambda: synchronize(agent.journal_namespace),
        )
        # Listened to before the first look: what changes in between is not missed.
        news = self._listen_to_network(stack)
        about = await self._surroundings.look(self._config)
        self._planner = Planner(self._config, self._engines, about.facts, self._places.user_mode)
        node = self._node = Node(self._world, self._planner)
        stack.push_async_callback(node.close)
        await node.adopt(await asyncio.to_thread(lambda: dict(store.read_all())), store.set_aside)
        objects = Objects(
            paths.ROOT,
            authorise=_bus_policy_decides,
            errors=error_of,
            internal_error=paths.ERROR + "Internal",
        )
        stack.push_async_callback(objects.close)
        self._face = Face(node, about, objects, self.reload)
        for shard in node.shards():
            self._face.added(shard)
        self._bus.serve(objects)
        self._bus.on_name_lost = self._end.set
        try:
            await self._bus.own_name()
        except NameTaken as error:
            raise CannotRun(f"{paths.SERVICE} is owned by another llmgwd") from error
        log.info("ready, %s", self._status())
        self._notifier.ready(self._status())
        self._run_along(self._tell_status())
        self._run_along(self._ping_watchdog())
        if news is not None:
            self._run_along(self._surroundings.follow(news, self._looked))
        await self._end.wait()
        self._notifier.stopping()
        ending = list(self._background)
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)

    async def reload(self) -> None:
        """Reads the configuration again, for shards started from now on.

        Raises InvalidConfig: then nothing has changed.
        """
        self._notifier.reloading(time.monotonic_ns() // 1000)
        try:
            config = await asyncio.to_thread(self._places.read, _names(self._brought))
            self._config = self._planner.config = config
            self._launcher.config = config
            self._world.timing = _timing(config)
            self._looked(await self._surroundings.look(config))
            log.info("configuration read again")
        finally:
            self._notifier.ready(self._status())

    def _listen_to_network(self, stack: contextlib.AsyncExitStack) -> NetworkNews | None:
        try:
            return stack.enter_context(NetworkNews())
        except OSError as error:  # where AF_NETLINK may not be used
            log.warning("changes of the network are seen at a reload only: %s", error)
            return None

    def _looked(self, about: About) -> None:
        self._planner.facts = about.facts
        self._face.looked_around(about)

    def _reload_by_signal(self) -> None:
        async def reload() -> None:
            try:
                await self.reload()
            except InvalidConfig as error:
                log.error("configuration not changed: %s", error)

        self._run_along(reload())

    def _run_along(self, what: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(what)
        self._background.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._background.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a fault of llmgwd, it goes on without this task", exc_info=error)

    def _status(self) -> str:
        counts = self._node.counts()
        total = sum(counts.values())
        if not total:
            return "no shards"
        by_state = ", ".join(f"{counts[state]} {state}" for state in State if counts.get(state))
        return f"{total} shard{'s' if total > 1 else ''}: {by_state}"

    async def _tell_status(self) -> None:
        while True:
            await self._node.counts_changed.wait()
            self._node.counts_changed.clear()
            self._notifier.status(self._status())
            await asyncio.sleep(1)  # of a burst of changes systemd hears the last

    async def _ping_watchdog(self) -> None:
        """Proves that the loop turns and that the bus carries a call to our own name and back."""
        interval = watchdog_interval_s()
        heard = time.monotonic()
        while interval:
            try:
                await self._systemd_bus.call(paths.SERVICE, paths.ROOT, _PEER, "Ping", timeout_s=interval / 4)
                heard = time.monotonic()
                self._notifier.alive()
            except BusLost:
                if time.monotonic() - heard < _BUS_GRACE_S:
                    self._notifier.alive()
            except (CallFailed, CallTimedOut) as error:
                log.warning("no answer from ourselves over the bus: %s", error)
            await asyncio.sleep(interval / 4)


def main() -> None:
    """The entry point `llmgwd`."""
    parser = argparse.ArgumentParser(prog="llmgwd", description="Supervises LLM engines under systemd.")
    parser.add_argument("--user", action="store_true", help="session bus and the user's own systemd")
    parser.add_argument("--check", action="store_true", help="say whether the configuration is good, and end")
    parser.add_argument("--version", action="version", version=version("llmgwd"))
    arguments = parser.parse_args()
    places = Places.of_user() if arguments.user else Places.of_system()
    if arguments.check:
        sys.exit(_check(places))
    setup_logging()
    try:
        asyncio.run(_run(places))
    except CannotRun as error:
        log.critical("%s", error)
        sys.exit(error.status)


async def _run(places: Places) -> None:
    if not cgroup.is_unified():
        raise CannotRun(
            f"llmgwd needs cgroup v2 alone on {cgroup.ROOT} (see systemd.unified_cgroup_hierarchy)"
        )
    await Daemon(places).run()


def _check(places: Places) -> int:
    """Says what a start would say of the configuration; gives the exit status."""
    try:
        _read(places, find_engines())
    except BadConfiguration as error:
        sys.stderr.write(f"{error}\n")
        return error.status
    sys.stdout.write("configuration is good\n")
    return 0


def _read(places: Places, brought: Brought) -> Config:
    try:
        return places.read(_names(brought))
    except InvalidConfig as error:
        raise BadConfiguration(str(error)) from error


def _names(brought: Brought) -> tuple[str, ...]:
    """What a configuration may speak of: an engine that cannot be loaded today is no fault of it."""
    return (*Engines(), *brought.names)


def _timing(config: Config) -> Timing:
    return Timing(health_interval_s=config.agent.health_interval_s, alive_grace_s=config.agent.alive_grace_s)


async def _bus_policy_decides(_: Caller, __: str) -> None:
    """The bus lets nobody through but root (dbus/org.llmgw.Node1.conf), or the user's own session."""


if __name__ == "__main__":
    main()
