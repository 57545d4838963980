"""A process of this machine, held by pidfd: it cannot be mistaken for a later one of the same number."""

import asyncio
import errno
import os
import signal
from pathlib import Path

PROC = Path("/proc")


def boot_id() -> str:
    """Of this boot of the machine; see random(4)."""
    return (PROC / "sys/kernel/random/boot_id").read_text().strip()


# pidfd_open(2): none, none of that number can be, one of a thread (EINVAL; ENOENT from Linux 6.9 on).
_NO_PROCESS = frozenset({errno.ESRCH, errno.EINVAL, errno.ENOENT})


class NoSuchProcess(Exception):  # noqa: N818
    """The process has gone, or is another one than was meant."""


def start_time(pid: int) -> int:
    """Clock ticks between boot and the start of `pid`: field 22 of proc_pid_stat(5).

    With the boot id it tells two processes of the same number apart. Raises NoSuchProcess.
    """
    return int(_stat(pid)[19])


def state(pid: int) -> str:
    """The letter of proc_pid_stat(5), such as `D`; `X` for one that has gone."""
    try:
        return _stat(pid)[0]
    except NoSuchProcess:
        return "X"


def control_group(pid: int) -> str:
    """The cgroup v2 path of `pid`, from the root of the hierarchy. Raises NoSuchProcess."""
    try:
        lines = (PROC / str(pid) / "cgroup").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError) as error:
        raise NoSuchProcess(f"pid {pid}") from error
    # A hybrid host lists its v1 hierarchies, too; v2 is the one numbered 0.
    return next((line.removeprefix("0::") for line in lines if line.startswith("0::")), "")


def first_child(pid: int) -> int:
    """The oldest child of `pid`; 0 where there is none."""
    try:
        children = (PROC / str(pid) / "task" / str(pid) / "children").read_text().split()
    except OSError:
        return 0
    return int(children[0]) if children else 0


def leads_session(pid: int) -> bool:
    """Whether `pid` has made a session of its own (setsid(2)): field 6 of proc_pid_stat(5)."""
    try:
        return int(_stat(pid)[3]) == pid
    except NoSuchProcess:
        return False


def _stat(pid: int) -> list[str]:
    try:
        text = (PROC / str(pid) / "stat").read_bytes().decode(errors="replace")
    except (FileNotFoundError, ProcessLookupError) as error:
        raise NoSuchProcess(f"pid {pid}") from error
    # The second field is the name in brackets, which may itself hold blanks and brackets.
    return text.rpartition(")")[2].split()


class Held:
    """A process that we watch: a child or not makes no difference.

    `ended` is done when the process has ended (a zombie counts). The owner calls `release`.
    """

    def __init__(self, pid: int, pidfd: int) -> None:
        self.pid = pid
        self.start_time = start_time(pid)
        self._pidfd = pidfd
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self._loop.add_reader(pidfd, self._on_end)

    @classmethod
    def open(cls, pid: int, *, started: int | None = None) -> "Held":
        """Raises NoSuchProcess: `pid` has gone, or did not start at `started` (it was reused).

        OSError where this daemon has no room for it, which says nothing about the process.
        """
        try:
            pidfd = os.pidfd_open(pid)
        except OSError as error:
            if error.errno in _NO_PROCESS:
                raise NoSuchProcess(f"pid {pid}") from error
            raise
        try:
            held = cls(pid, pidfd)
        except BaseException:
            os.close(pidfd)
            raise
        if started is not None and held.start_time != started:
            held.release()
            raise NoSuchProcess(f"pid {pid} is another process now")
        return held

    def send(self, sent: signal.Signals) -> None:
        """Signals this very process; one that has ended is left in peace."""
        if self._pidfd < 0:
            return
        try:
            signal.pidfd_send_signal(self._pidfd, sent)
        except ProcessLookupError:
            pass

    def release(self) -> None:
        if self._pidfd >= 0:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = -1
        self.ended.cancel()

    def _on_end(self) -> None:
        self._loop.remove_reader(self._pidfd)
        if not self.ended.done():
            self.ended.set_result(None)
