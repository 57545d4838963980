"""A throw-away machine: the host's own systemd, booted by systemd-nspawn over an overlay of its root."""

import os
import secrets
import subprocess
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self, TypeVar

from tests.machine.host import MachineError, cgroup2_mount, what_is_missing
from tests.machine.layer import MASKED, TREE, layer
from tests.machine.readiness import NotReadyError, Readiness
from tests.machine.waiting import wait_for

__all__ = ["MASKED", "TREE_INSIDE", "CommandError", "Machine", "MachineError", "what_is_missing"]

T = TypeVar("T")

TREE_INSIDE = "/usr/src/llmgwd"
BOOT = Path(__file__).with_name("boot.sh")

# nspawn's options for the network. Two machines that are joined have this as well (see pair.py).
NO_NETWORK = ("--private-network",)

# A clock that is set inside would be the host's: neither the machine nor a command may.
NO_CLOCK = "-sys_time"

ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LANG": "C.UTF-8",
    "HOME": "/root",
    "TERM": "dumb",
    "SYSTEMD_COLORS": "0",
}

JOURNAL_LINES = 300


class CommandError(Exception):
    """A command inside ended with another status than 0; `result` has its output."""

    def __init__(self, machine: str, result: subprocess.CompletedProcess[str]) -> None:
        said = f"{result.stdout}{result.stderr}".rstrip()
        super().__init__(f"{result.args} on {machine} ended with {result.returncode}\n{said}")
        self.result = result


class Machine:
    """One booted machine, from `with Machine("node-a") as machine:` to the end of the block.

    `enable`: units that it starts at boot (`llmgwd.service`). `files`: laid down before it boots, absolute
    path to text. `masked`: units that it never starts. `network`: nspawn's options. The source tree is at
    TREE_INSIDE, read only. The machine ends with the process that booted it, however that one ends.
    """

    running: ClassVar[list["Machine"]] = []

    def __init__(
        self,
        name: str = "node",
        *,
        enable: Collection[str] = (),
        files: Mapping[str, str] | None = None,
        masked: Collection[str] = MASKED,
        network: Sequence[str] = NO_NETWORK,
        boot_timeout_s: float = 60.0,
    ) -> None:
        self.name = name
        self.leader = 0
        self.cgroup = cgroup2_mount() / f"llmgwd-machine-{name}-{secrets.token_hex(4)}"
        self.keeper: subprocess.Popen[bytes] | None = None
        self._layer = layer(name, files or {}, enable, masked)
        self._network = network
        self._boot_timeout_s = boot_timeout_s
        self._commands = Path()
        self._console = tempfile.TemporaryFile()  # noqa: SIM115 -- close() closes it

    def __enter__(self) -> Self:
        try:
            self.boot()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    def boot(self) -> None:
        """Returns when the machine's systemd has reached multi-user.target. Raises MachineError."""
        with tempfile.TemporaryFile() as archive, Readiness() as readiness:
            archive.write(self._layer)
            archive.flush()
            self.keeper = subprocess.Popen(
                [
                    "unshare", "--mount", "--propagation", "private",
                    "/bin/sh", str(BOOT), str(self.cgroup), f"/proc/self/fd/{archive.fileno()}", str(TREE),
                    f"--machine={self.name}",
                    "--register=no", "--keep-unit",
                    "--settings=no", "--link-journal=no", "--resolv-conf=off", "--timezone=off",
                    *self._network,
                    "--capability=all",
                    "--drop-capability=CAP_SYS_TIME",
                    "--console=pipe",
                    "--notify-ready=yes",
                    "--boot", "systemd.unit=multi-user.target",
                ],
                stdin=subprocess.PIPE,
                stdout=self._console,
                stderr=subprocess.STDOUT,
                env=ENVIRONMENT
                | {
                    "NOTIFY_SOCKET": readiness.address,
                    "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1",  # where the host is still hybrid
                },
                pass_fds=(archive.fileno(),),
                start_new_session=True,
            )  # fmt: skip
            try:
                self.leader = readiness.leader(self.keeper, self._boot_timeout_s)
            except NotReadyError as error:
                raise MachineError(f"{self.name} {error}: {self.console()}") from error
        self._commands = self._payload() / "commands"
        self._commands.mkdir()
        self.running.append(self)

    def close(self) -> None:
        """Ends the machine and waits until nothing of it is left. Raises MachineError if something stays."""
        if self in self.running:
            self.running.remove(self)
        if self.keeper is not None and self.keeper.stdin is not None and not self.keeper.stdin.closed:
            self.keeper.stdin.close()
            try:
                self.keeper.wait(timeout=20)
                wait_for(f"{self.cgroup} is gone", lambda: not self.cgroup.exists())
            except (subprocess.TimeoutExpired, TimeoutError) as error:
                raise MachineError(f"{self.name} does not end: {self.console()}") from error
        self._console.close()

    def run(
        self,
        command: Sequence[str],
        *,
        check: bool = True,
        user: str = "root",
        environment: Mapping[str, str] | None = None,
        input: str = "",
        timeout_s: float = 30.0,
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command to its end. Raises CommandError (with `check`), TimeoutExpired (it was killed)."""
        result = subprocess.run(
            self._enter(command, user),
            input=input,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            env=ENVIRONMENT | dict(environment or {}),
            timeout=timeout_s,
            check=False,
        )
        result.args = list(command)
        if check and result.returncode != 0:
            raise CommandError(self.name, result)
        return result

    @contextmanager
    def popen(
        self, command: Sequence[str], *, user: str = "root", environment: Mapping[str, str] | None = None
    ) -> Iterator[subprocess.Popen[str]]:
        """A command that runs beside the test, with three pipes; killed at the end of the block."""
        with subprocess.Popen(
            self._enter(command, user),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            env=ENVIRONMENT | dict(environment or {}),
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    def shell(self) -> None:
        """A shell inside, on this terminal, until it is left."""
        terminal = {"TERM": os.environ.get("TERM", "dumb")}
        subprocess.run(self._enter(["/bin/bash", "-i"], "root"), env=ENVIRONMENT | terminal, check=False)

    def path(self, inside: str) -> Path:
        """A path of the machine as one of the host; an absolute symbolic link in it leads to the host's."""
        return Path(f"/proc/{self.leader}/root{inside}")

    def journal(self, *arguments: str) -> str:
        """What journalctl prints for these arguments, everything included that was logged before the call."""
        for namespace in (argument for argument in arguments if argument.startswith("--namespace=")):
            # Refused where nothing was ever logged in it.
            self.run(["journalctl", "--sync", namespace.replace("=+", "=")], check=False)
        self.run(["journalctl", "--sync"])
        return self.run(["journalctl", "--no-pager", "--quiet", *arguments]).stdout

    def wait_for(self, what: str, look: Callable[[], T], *, timeout_s: float = 10.0) -> T:
        """Looks until the answer is true, and returns it. Raises TimeoutError with the last answer."""
        return wait_for(f"{what} on {self.name}", look, timeout_s=timeout_s)

    def console(self) -> str:
        """What systemd-nspawn and the machine's PID 1 printed."""
        return os.pread(self._console.fileno(), 100_000, 0).decode(errors="replace").strip()

    def report(self) -> str:
        """For a test that failed: the end of the journal, the host's and the engines' namespace mixed."""
        try:
            return self.journal("--namespace=+llmgw", "--output=short-precise", f"--lines={JOURNAL_LINES}")
        except (CommandError, subprocess.TimeoutExpired) as error:
            return f"{error}\n{self.console()}"

    def _payload(self) -> Path:
        """The cgroup that the machine's systemd takes for its root."""
        lines = Path(f"/proc/{self.leader}/cgroup").read_text().splitlines()
        group = next(line.removeprefix("0::") for line in lines if line.startswith("0::"))
        return Path(f"{cgroup2_mount()}{group}").parent  # systemd itself is in init.scope

    def _enter(self, command: Sequence[str], user: str) -> list[str]:
        """The command line that runs `command` inside: in the machine's cgroup, killed with its waiter."""
        return [
            "/bin/sh", "-c", 'echo 0 >"$0" && exec "$@"', str(self._commands / "cgroup.procs"),
            "nsenter", "--target", str(self.leader), "--all", "--root", "--wd", "--",
            "setpriv", "--pdeathsig", "KILL", "--bounding-set", NO_CLOCK, *self._identity(user), "--",
            *command,
        ]  # fmt: skip

    def _identity(self, user: str) -> list[str]:
        if user == "root":
            return []
        for line in self.path("/etc/passwd").read_text().splitlines():
            name, _, uid, gid, *_ = line.split(":")
            if name == user:
                return [f"--reuid={uid}", f"--regid={gid}", "--init-groups", "--inh-caps=-all"]
        raise MachineError(f"{self.name} has no user {user}")
