"""A private message bus with a fake daemon on it, and the command line run against both."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).parents[2]
CONFIGURATION = """<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>session</type>
  <listen>unix:path={socket}</listen>
  <auth>EXTERNAL</auth>
  <policy context="default">
    <allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/><allow user="*"/>
  </policy>
</busconfig>
"""


@contextmanager
def private_bus(directory: Path) -> Iterator[str]:
    """The address of a bus of our own."""
    socket = directory / "bus"
    (directory / "bus.conf").write_text(CONFIGURATION.format(socket=socket))
    command = ["dbus-daemon", f"--config-file={directory}/bus.conf", "--nofork", "--print-address=1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as bus:
        assert bus.stdout is not None
        try:
            assert bus.stdout.readline().startswith("unix:path=")
            yield f"unix:path={socket}"
        finally:
            bus.terminate()


@dataclass
class Outcome:
    """What a command printed, and its exit status."""

    status: int
    out: str
    err: str = ""

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@dataclass
class FakeNode:
    """The fake daemon, as a process that can be killed and started again, always with an empty node."""

    address: str
    environment: dict[str, str] = field(default_factory=dict)
    _process: subprocess.Popen[str] | None = None

    def start(self, *shards: dict[str, Any], owns_name: bool = True) -> None:
        """With these shards, which nobody was told about."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.fakes.manager", self.address],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=PROJECT,
        )  # fmt: skip
        for shard in shards:
            self.do("put", values=shard)
        if owns_name:
            self.do("own name")

    def do(self, what: str, **more: object) -> Any:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps({"do": what, **more}) + "\n")
        process.stdin.flush()
        answer = process.stdout.readline()
        assert answer, "the fake daemon died"
        return json.loads(answer)

    def put(self, id: str, **values: object) -> None:
        self.do("put", values={"Id": id, **values})

    def change(self, id: str, **values: object) -> None:
        self.do("change", id=id, values=values)

    def after(self, member: str, *changes: tuple[str, dict[str, Any]]) -> None:
        """When this member has been answered next, these shards change like this, one after the other."""
        self.do(
            "after",
            member=member,
            orders=[{"do": "change", "id": shard_id, "values": to} for shard_id, to in changes],
        )

    def fail(self, member: str, error: str, text: str) -> None:
        self.do("fail", member=member, error=error, text=text)

    def await_call(self, member: str, times: int = 1) -> None:
        self.do("await call", member=member, times=times)

    def calls(self) -> list[Any]:
        return [call for call in self.do("calls") if call[0] != "TailShard"]

    def wait_until_dead(self) -> None:
        assert self._process is not None
        self._process.communicate()
        self._process = None

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self.wait_until_dead()

    def popen(self, *words: str, **options: Any) -> subprocess.Popen[str]:
        """The command line as a process."""
        environment = {
            "PATH": os.environ["PATH"], "TZ": "UTC", "LC_ALL": "C.UTF-8", "PYTHONWARNINGS": "error",
            "DBUS_SYSTEM_BUS_ADDRESS": self.address, "DBUS_SESSION_BUS_ADDRESS": "unix:path=/nowhere",
            **{name: os.environ[name] for name in ("LLMGWD_BUS_LIBRARY",) if name in os.environ},
            **self.environment,
        }  # fmt: skip
        pipes: dict[str, Any] = {
            "stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options
        }  # fmt: skip
        return subprocess.Popen(
            [sys.executable, "-m", "llmgwd.cli.main", *words],
            env=environment,
            cwd=PROJECT,
            text=True,
            **pipes,
        )

    def run(self, *words: str, **options: Any) -> Outcome:
        return finish(self.popen(*words, **options))


def finish(process: subprocess.Popen[str], timeout_s: float = 30) -> Outcome:
    """Wait for its end; a command that hangs fails the test."""
    with process:
        try:
            out, err = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    return Outcome(process.returncode, out, err)
