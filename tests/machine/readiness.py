"""The socket on which systemd-nspawn says that a machine is up, and which process is its first."""

import os
import selectors
import socket
import subprocess
import time
from types import TracebackType
from typing import Self


class NotReadyError(Exception):
    """The machine ended, or the time did, before it was up."""


class Readiness:
    """The receiving end of sd_notify(3), for nspawn's --notify-ready=yes."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind("")  # an abstract name of the kernel's choice: no file to remove

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._socket.close()

    @property
    def address(self) -> str:
        """For NOTIFY_SOCKET."""
        name: bytes = self._socket.getsockname()
        return f"@{name[1:].decode()}"

    def leader(self, process: subprocess.Popen[bytes], timeout_s: float) -> int:
        """Waits until the machine is up; the host's pid of its first process. Raises NotReadyError."""
        deadline = time.monotonic() + timeout_s
        values: dict[str, str] = {}
        ended = os.pidfd_open(process.pid)
        try:
            with selectors.DefaultSelector() as selector:
                selector.register(self._socket, selectors.EVENT_READ)
                selector.register(ended, selectors.EVENT_READ)
                while events := selector.select(max(0.0, deadline - time.monotonic())):
                    if all(key.fileobj is not self._socket for key, _ in events):
                        raise NotReadyError("ended while it booted")
                    message = self._socket.recv(4096).decode()
                    values |= dict(line.partition("=")[::2] for line in message.splitlines())
                    if values.get("READY") == "1":
                        return int(values["X_NSPAWN_LEADER_PID"])
            raise NotReadyError(f"is not up after {timeout_s:g} s")
        finally:
            os.close(ended)
