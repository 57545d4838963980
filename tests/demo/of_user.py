"""The story with a user's own systemd, without root: `llmgwd --user` is a transient service for a while."""

import os
import pwd
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.demo.place import SHAPE, Place, Result
from tests.machine.layer import TREE
from tests.machine.machine import CommandError
from tests.real import gguf
from tests.real.llama import llama_server
from tests.real.trial import free_port

UNIT: Final = "llmgwd-demo.service"
LLMGWCTL: Final = (sys.executable, "-m", "llmgwd.cli.main")
DAEMON: Final = (sys.executable, "-m", "llmgwd.daemon", "--user")
SHARDS: Final = "llmgw-shard-*.scope"
SLICE: Final = "llmgw.slice"


class OfUser:
    """A place, tests/demo/place.py. `home` holds all its files."""

    opening = "llmgwd has started, with this user's own systemd and on the session bus."
    user_flag: tuple[str, ...] = ("--user",)
    engines_journal = "--user"
    daemon_unit = UNIT
    tree = str(TREE)

    def __init__(self, home: Path) -> None:
        self.home = home
        self.engine_user = pwd.getpwuid(os.getuid()).pw_name
        self.model = str(home / "random.gguf")
        self.port = free_port()

    def run(self, command: Sequence[str], *, check: bool = True) -> Result:
        ran = subprocess.run(
            _known_here(command),
            cwd=TREE,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=60,
            check=False,
        )
        ran.args = list(command)
        if check and ran.returncode != 0:
            raise CommandError("this host", ran)
        return ran

    @contextmanager
    def popen(self, command: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
        with subprocess.Popen(
            _known_here(command), stdout=subprocess.PIPE, encoding="utf-8", errors="replace"
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    def journal(self) -> str:
        arguments = ["--user", "--no-pager", "--lines=100", f"--unit={UNIT}", f"--unit={SHARDS}"]
        return self.run(["journalctl", *arguments], check=False).stdout

    def shell(self) -> None:
        programs = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        subprocess.run([os.environ.get("SHELL", "/bin/sh")], env=os.environ | {"PATH": programs}, check=False)

    def start_daemon(self) -> None:
        """Returns when it is ready. Raises CommandError."""
        properties = ("Type=notify", "NotifyAccess=main", "Restart=always", "RestartSec=200ms")
        directories = {"XDG_CONFIG_HOME": self.home / "config", "XDG_STATE_HOME": self.home / "state"}
        self.run(
            [
                "systemd-run", "--user", "--quiet", f"--unit={UNIT}", f"--working-directory={TREE}",
                *(f"--property={line}" for line in properties),
                *(f"--setenv={name}={path}" for name, path in directories.items()),
                *DAEMON,
            ]
        )  # fmt: skip

    def end(self) -> None:
        """Ends what the story started, and what an earlier one may have left."""
        self.run(["systemctl", "--user", "stop", UNIT, "llmgw-shard-demo.scope"], check=False)
        self.run(["systemctl", "--user", "reset-failed", UNIT], check=False)
        shards = ["systemctl", "--user", "list-units", "--all", "--plain", "--no-legend", SHARDS]
        if not self.run(shards).stdout:
            self.run(["systemctl", "--user", "stop", SLICE], check=False)


@contextmanager
def of_user(say: Callable[[str], None]) -> Iterator[Place]:
    """Raises CommandError, NoLlamaServer."""
    program = llama_server(say=say)
    with tempfile.TemporaryDirectory(prefix="llmgwd-demo-") as home:
        place = OfUser(Path(home))
        gguf.write(Path(place.model), SHAPE)
        config = Path(home, "config/llmgwd/llmgwd.toml")
        config.parent.mkdir(parents=True)
        config.write_text(f'[engines.llama-cpp]\nexecutable = "{program}"\n')
        place.end()
        try:
            place.start_daemon()
            yield place
        finally:
            place.end()


def what_is_missing() -> str:
    """In a few words; empty when a user's systemd and bus are here and free."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    needed = {
        "systemd is not this host's first process": Path("/run/systemd/system").is_dir(),
        "XDG_RUNTIME_DIR is not set, as it is in a user's session": runtime != "",
        f"none is at {runtime}": Path(runtime, "systemd/private").exists(),
        f"no session bus is at {runtime}": Path(runtime, "bus").exists(),
        "/sys/fs/cgroup is not cgroup v2 alone": Path("/sys/fs/cgroup/cgroup.controllers").exists(),
    }
    for problem, is_here in needed.items():
        if not is_here:
            return problem
    bus = ("org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus")
    call = ["busctl", "--user", "call", *bus, "NameHasOwner", "s", "org.llmgw.Node1"]
    answer = subprocess.run(call, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        return f"the session bus does not answer: {answer.stderr.strip()}"
    if answer.stdout.strip() == "b false" or _is_active(UNIT):  # what an earlier story left is ended
        return ""
    return "an llmgwd of this user runs already"


def _is_active(unit: str) -> bool:
    asked = subprocess.run(["systemctl", "--user", "--quiet", "is-active", unit], check=False)
    return asked.returncode == 0


def _known_here(command: Sequence[str]) -> list[str]:
    """llmgwctl need not be installed."""
    return [*LLMGWCTL, *command[1:]] if command[0] == "llmgwctl" else list(command)
