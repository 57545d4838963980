"""llmgwd on a booted machine, commanded as an operator would by hand: busctl, systemctl, kill."""

import json
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from tests.machine.machine import Machine
from tests.machine.monitor import Monitor, monitor, unwrapped
from tests.machine.specs import engine, fake
from tests.machine.spelling import dictionary

T = TypeVar("T")
Shard = dict[str, Any]

SERVICE = "org.llmgw.Node1"
ROOT = "/org/llmgw/Node1"
MANAGER = "org.llmgw.Node1.Manager"
SHARD = "org.llmgw.Node1.Shard"
DAEMON = "llmgwd.service"
STATE = "/var/lib/llmgwd"
TERMINAL = ("stopped", "failed")

CONFIG = "/etc/llmgwd/llmgwd.toml.d/test.toml"
CONFIGURED = """
[agent]
alive_grace_s = 0.2
health_interval_s = 0.2
[engines.command]
enabled = true
"""


def outcome(shard: Shard) -> tuple[str, str, int, str]:
    """How it is, or has ended."""
    return shard["State"], shard["Reason"], shard["ExitCode"], shard["ExitSignal"]


class Refused(Exception):  # noqa: N818
    """An error instead of an answer; its text, all that busctl shows."""


class Node:
    """`call` is one busctl; what stands below it gives names to what tests ask often."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    def call(
        self,
        member: str,
        *arguments: str,
        path: str = ROOT,
        interface: str = MANAGER,
        timeout_s: float = 30.0,
    ) -> Any:
        """The first value of the answer, without variants. Never starts the daemon. Raises Refused."""
        done = self.machine.run(call(member, *arguments, path=path, interface=interface), check=False)
        if done.returncode:
            raise Refused(done.stderr.strip().removeprefix("Call failed: "))
        return unwrapped(json.loads(done.stdout)["data"])[0] if done.stdout.strip() else None

    # Shards

    def start(self, id: str, **spec: object) -> str:
        """A shard of engine `command` where nothing else is said. Raises Refused."""
        return str(self.call("StartShard", *spelled(id, **spec)))

    def stop(self, id: str, **options: object) -> None:
        self.call("StopShard", "sa{sv}", id, *dictionary(options))

    def shards(self) -> dict[str, Shard]:
        return {shard["Id"]: shard for shard in self.call("ListShards")}

    def shard(self, id: str) -> Shard:
        return self.shards()[id]

    def tail(self, id: str, lines: int = 0) -> list[str]:
        return list(self.call("TailShard", "su", id, str(lines)))

    def wait(self, id: str, what: str, look: Callable[[Shard], bool], *, timeout_s: float = 10.0) -> Shard:
        """The shard once it is so. Raises TimeoutError, and AssertionError where it has ended before."""

        def there() -> Shard:
            shard = self.shard(id)
            if look(shard):
                return shard
            assert shard["State"] not in TERMINAL, f"{id} is {shard['State']}: {shard['Reason']}"
            return {}

        return self.machine.wait_for(f"{id} {what}", there, timeout_s=timeout_s)

    def wait_state(self, id: str, state: str, *, timeout_s: float = 10.0) -> Shard:
        return self.wait(id, f"is {state}", lambda shard: bool(shard["State"] == state), timeout_s=timeout_s)

    def started(self, id: str, **spec: object) -> Shard:
        """Starts a shard and waits until it is ready."""
        self.start(id, **spec)
        return self.wait_state(id, "ready")

    def started_deaf(self, id: str = "a", **spec: object) -> Shard:
        """The same for an engine that ignores SIGTERM; it does so when this returns."""
        self.start(id, command=engine("--deaf", "--say", "up"), **spec)
        self.machine.wait_for("it is deaf", lambda: self.tail(id) == ["up"])
        return self.wait_state(id, "ready")

    def record(self, shard: Shard) -> Path:
        """The file that outlives the daemon."""
        return self.machine.path(f"{STATE}/{shard['Unit'].removesuffix('.scope')}.json")

    def recorded(self, shard: Shard) -> dict[str, Any]:
        return dict(json.loads(self.record(shard).read_text()))

    # Processes

    def processes(self, shard: Shard) -> tuple[int, ...]:
        """All pids in the shard's cgroup, as the machine numbers them; none where it has gone."""
        file = f"/sys/fs/cgroup{shard['ControlGroup']}/cgroup.procs"
        return tuple(int(pid) for pid in self.machine.run(["cat", file], check=False).stdout.split())

    def identity(self, pid: int) -> tuple[int, int] | None:
        """Pid and start time of a process that runs; `None` for one that has ended."""
        try:
            stat = self.machine.path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            return None
        return None if stat[0] in {"Z", "X"} else (pid, int(stat[19]))

    def parent(self, pid: int) -> int:
        """Of an engine, its gate."""
        return int(self.machine.path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])

    def get(self, port: int, path: str) -> None:
        """Asks a fake engine for a page, and waits for the end of its answer, or of the engine."""
        ask = f"exec 3<>/dev/tcp/127.0.0.1/{port}; printf 'GET {path} HTTP/1.0\\r\\n\\r\\n' >&3; cat <&3"
        self.machine.run(["bash", "-c", f"{ask} 2>&- || :"])

    def running(self, pids: Sequence[int]) -> list[int]:
        return [pid for pid in pids if self.identity(pid) is not None]

    def kill(self, pid: int, signal: str = "KILL") -> None:
        self.machine.run(["kill", "-s", signal, str(pid)])

    def scopes(self) -> list[str]:
        """The scopes of shards that systemd has loaded."""
        listed = self.systemctl("list-units", "--all", "--plain", "--no-legend", "llmgw-shard-*.scope")
        return [line.split()[0] for line in listed.splitlines()]

    @contextmanager
    def service(self, unit: str, command: Sequence[str], *, slice: str = "system.slice") -> Iterator[int]:
        """A service that has nothing to do with llmgwd and runs as the engines' user; its pid."""
        self.machine.run(
            [
                "systemd-run", "--quiet", "--collect", f"--unit={unit}", f"--slice={slice}", "--uid=llmgw",
                *command,
            ]
        )  # fmt: skip
        try:
            yield self.main_pid(unit)
        finally:
            self.systemctl("kill", "--signal=KILL", unit)

    # The daemon

    def systemctl(self, *arguments: str) -> str:
        return self.machine.run(["systemctl", *arguments], timeout_s=60).stdout.strip()

    def main_pid(self, unit: str) -> int:
        return int(self.systemctl("show", "--value", "--property=MainPID", unit))

    def daemon_pid(self) -> int:
        return self.main_pid(DAEMON)

    def daemon_status(self) -> str:
        return self.systemctl("show", "--value", "--property=StatusText", DAEMON)

    def kill_daemon(self) -> None:
        """SIGKILL; returns when its successor has told systemd that it is ready."""
        before = self.daemon_pid()
        self.systemctl("kill", "--signal=KILL", DAEMON)
        self.machine.wait_for("a new llmgwd", lambda: self.daemon_pid() not in {0, before})
        self.wait_up()

    def restart_daemon(self) -> None:
        self.systemctl("restart", DAEMON)

    def stop_and_start_daemon(self) -> None:
        with self.without_daemon():
            pass

    def wait_up(self) -> None:
        self.machine.wait_for(
            "llmgwd is up",
            lambda: self.systemctl("show", "--value", "--property=ActiveState", DAEMON) == "active",
        )

    @contextmanager
    def without_daemon(self) -> Iterator[None]:
        """llmgwd is stopped in the block, and ready again after it."""
        self.systemctl("stop", DAEMON)
        try:
            yield
        finally:
            self.systemctl("start", DAEMON)

    def log(self, *arguments: str) -> list[dict[str, Any]]:
        """The daemon's own entries in the journal."""
        printed = self.machine.journal("--output=json", "SYSLOG_IDENTIFIER=llmgwd", *arguments)
        return [json.loads(line) for line in printed.splitlines()]

    def signals(self) -> AbstractContextManager[Monitor]:
        """What the daemon signals while the block runs."""
        return monitor(self.machine, f"type='signal',sender='{SERVICE}'")

    @contextmanager
    def reader(self, port: int) -> Iterator[subprocess.Popen[str]]:
        """A client of a fake engine's stream (fakes/stream_reader.py), which has begun to read."""
        with self.machine.popen(fake("stream_reader", str(port))) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "reading\n"
            yield process


def call(member: str, *arguments: str, path: str = ROOT, interface: str = MANAGER) -> list[str]:
    """The command line of one call of ours."""
    busctl = ["busctl", "call", "--json=short", "--auto-start=no", "--"]
    return [*busctl, SERVICE, path, interface, member, *arguments]


def spelled(id: str, **spec: object) -> list[str]:
    """What StartShard and PlanShard take, for engine `command` where nothing else is said."""
    return ["sa{sv}", id, *dictionary({"engine": "command"} | spec)]
