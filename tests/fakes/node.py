"""A private message bus, a fake daemon on it, and the command line run against both."""

import json
import os
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.fakes.command import LONGEST_S, PROJECT, Command, Outcome, Zygote

__all__ = ["FakeNode", "Outcome", "private_bus"]

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


class FakeNode:
    """The fake daemon, as a process that can be killed and started again, always with an empty node."""

    def __init__(self, address: str, zygote: Zygote | None = None, **environment: str) -> None:
        self.address = address
        self.environment = environment
        self._zygote = zygote
        self._process: subprocess.Popen[str] | None = None

    def beside(self, **environment: str) -> "FakeNode":
        """The same for commands that have more in their environment."""
        return FakeNode(self.address, self._zygote, **environment)

    @property
    def runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self, *shards: dict[str, Any], owns_name: bool = True) -> None:
        """With these shards, which nobody was told about."""
        self.kill()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.fakes.manager", self.address],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=PROJECT,
        )  # fmt: skip
        for shard in shards:
            self.do("put", values=shard)
        if owns_name:
            self.do("own name")

    def do(self, order: str, /, **more: object) -> Any:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps({"do": order, **more}) + "\n")
        process.stdin.flush()
        came, _, _ = select.select([process.stdout], [], [], LONGEST_S)
        assert came, f"no answer to {order} {more}"
        answer = process.stdout.readline()
        assert answer, "the fake daemon died"
        return json.loads(answer)

    def put(self, id: str, **values: object) -> None:
        self.do("put", values={"Id": id, **values})

    def change(self, id: str, **values: object) -> None:
        self.do("change", id=id, values=values)

    def after(self, member: str, *changes: tuple[str, dict[str, Any]]) -> None:
        """When this member has been answered next, these shards change like this, one after the other."""
        orders = [{"do": "change", "id": shard_id, "values": to} for shard_id, to in changes]
        self.do("after", member=member, orders=orders)

    def fail(self, member: str, error: str, text: str) -> None:
        self.do("fail", member=member, error=error, text=text)

    def await_answer(self, member: str, times: int = 1) -> None:
        """Returns when so many calls have been answered."""
        self.do("await answer", member=member, times=times)

    def calls(self) -> list[Any]:
        return [call for call in self.do("calls") if call[0] != "TailShard"]

    def wait_until_dead(self) -> None:
        assert self._process is not None
        self._process.wait()  # communicate() would end it: its input would be closed
        self._process.communicate()
        self._process = None

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self.wait_until_dead()

    def begin(self, *words: str | bytes, **files: int) -> Command:
        """The command line, running. `out`, `err`: descriptors to write to."""
        assert self._zygote is not None
        environment = {
            "PATH": os.environ["PATH"],
            "TZ": "UTC",
            "DBUS_SYSTEM_BUS_ADDRESS": self.address,
            "DBUS_SESSION_BUS_ADDRESS": "unix:path=/nowhere",
            **self.environment,
        }
        return Command(self._zygote, words, environment, **files)

    def run(self, *words: str | bytes, **files: int) -> Outcome:
        return self.begin(*words, **files).finish()
