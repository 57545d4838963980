"""Word to the service manager: ready, how it is going, still alive."""

import os

import sdnotify


class Notifier:
    """Says nothing where nobody listens (`NOTIFY_SOCKET` is not set)."""

    def __init__(self) -> None:
        self._notifier = sdnotify.SystemdNotifier()
        if self._notifier.socket is not None:
            # sdnotify's socket waits when the manager is slow; the event loop must not.
            self._notifier.socket.setblocking(False)

    def ready(self, status: str) -> None:
        self._send(f"READY=1\nSTATUS={status}")

    def status(self, status: str) -> None:
        self._send(f"STATUS={status}")

    def reloading(self, monotonic_us: int) -> None:
        self._send(f"RELOADING=1\nMONOTONIC_USEC={monotonic_us}")

    def stopping(self) -> None:
        self._send("STOPPING=1")

    def alive(self) -> None:
        self._send("WATCHDOG=1")

    def _send(self, text: str) -> None:
        # sdnotify encodes latin-1, and loses what does not fit into it
        self._notifier.notify(text.encode("ascii", "replace").decode())


def watchdog_interval_s() -> float:
    """Seconds within which the manager wants to hear of us; 0 for never (sd_watchdog_enabled(3))."""
    usec, pid = os.environ.get("WATCHDOG_USEC", ""), os.environ.get("WATCHDOG_PID", "")
    if not usec.isdigit() or (pid and pid != str(os.getpid())):
        return 0.0
    return int(usec) / 1_000_000
