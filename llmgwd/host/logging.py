"""The daemon's own lines: entries with fields in the host's journal, or text on standard error.

A thread writes them from a bounded queue, so that a stuck journal or terminal never holds up the event loop.
"""

import logging
import os
import queue
import socket
import struct
import threading
from collections.abc import Mapping

JOURNAL_SOCKET = "/run/systemd/journal/socket"
STANDARD_ERROR = 2

QUEUE_LENGTH = 1024
FLUSH_TIMEOUT_S = 1.0

# A datagram has to fit into the socket's buffer, which is 208 KiB where nobody changed it.
LONGEST_MESSAGE_BYTES = 64 * 1024


def setup_logging(*, identifier: str = "llmgwd", level: int | str = logging.INFO) -> None:
    """Send what is logged from `level` on to the journal, or to standard error where that is not the journal.

    `extra={"LLMGW_SHARD": …}` becomes a field of the entry, as every key does that begins with LLMGW_; empty
    ones are left out. Call it again to change the level.
    """
    root = logging.getLogger()
    for former in [handler for handler in root.handlers if isinstance(handler, QueuedHandler)]:
        root.removeHandler(former)
        former.close()
    root.addHandler(JournalHandler(identifier) if standard_error_is_journal() else TextHandler())
    root.setLevel(level)


def standard_error_is_journal() -> bool:
    """Whether systemd connected standard error to the journal (systemd.exec(5), $JOURNAL_STREAM)."""
    try:
        stderr = os.fstat(STANDARD_ERROR)
    except OSError:  # closed
        return False
    connected = os.environ.get("JOURNAL_STREAM") == f"{stderr.st_dev}:{stderr.st_ino}"
    return connected and os.path.exists(JOURNAL_SOCKET)


class QueuedHandler(logging.Handler):
    """Renders a record at once and leaves the writing to a thread; what is lost is counted and reported."""

    def __init__(self, length: int = QUEUE_LENGTH) -> None:
        super().__init__()
        self._queue: queue.Queue[bytes | None] = queue.Queue(length)
        self._lost = 0
        self._lost_lock = threading.Lock()  # not the handler's own, which flush() is called under
        self._thread = threading.Thread(target=self._write_queued, name="log", daemon=True)
        self._thread.start()

    def render(self, record: logging.LogRecord) -> bytes:
        """Everything about the record that is written, as it is written."""
        raise NotImplementedError

    def write(self, entry: bytes) -> None:
        """Write one entry; may block, may raise OSError."""
        raise NotImplementedError

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._queue.put_nowait(self.render(record))
        except queue.Full:
            self._lose(1)
        except (TypeError, ValueError, KeyError):  # the message and its arguments do not fit
            self.handleError(record)

    def flush(self) -> None:
        """Wait until everything so far was written, but not for long: the journal may be what hangs."""
        with self._queue.all_tasks_done:
            self._queue.all_tasks_done.wait_for(lambda: not self._queue.unfinished_tasks, FLUSH_TIMEOUT_S)

    def close(self) -> None:
        try:
            self._queue.put_nowait(None)
            self._thread.join(FLUSH_TIMEOUT_S)
        except queue.Full:  # stuck; the thread goes with the process
            pass
        super().close()

    def _write_queued(self) -> None:
        while (entry := self._queue.get()) is not None:
            if not self._written(entry):
                self._lose(1)
            elif (lost := self._take_lost()) and not self._written(self.render(_notice(lost))):
                self._lose(lost)
            self._queue.task_done()
        self._queue.task_done()

    def _written(self, entry: bytes) -> bool:
        try:
            self.write(entry)
        except OSError:
            return False
        return True

    def _lose(self, lines: int) -> None:
        with self._lost_lock:
            self._lost += lines

    def _take_lost(self) -> int:
        with self._lost_lock:
            lost, self._lost = self._lost, 0
        return lost


class JournalHandler(QueuedHandler):
    """To the host's journal by its native protocol.

    Not systemd.journal.JournalHandler: its send() keeps the interpreter's lock while a stuck journal makes it
    wait (python-systemd 235), and it writes the %-arguments out as CODE_ARGS.
    """

    def __init__(self, identifier: str, length: int = QUEUE_LENGTH) -> None:
        self._identifier = identifier
        super().__init__(length)

    def render(self, record: logging.LogRecord) -> bytes:
        return encode(fields(record, self.format(record), self._identifier))

    def write(self, entry: bytes) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as journal:
            journal.sendto(entry, JOURNAL_SOCKET)


class TextHandler(QueuedHandler):
    """To standard error, for a person at a terminal."""

    def __init__(self, length: int = QUEUE_LENGTH) -> None:
        super().__init__(length)
        self.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))

    def render(self, record: logging.LogRecord) -> bytes:
        return f"{self.format(record)}\n".encode(errors="backslashreplace")

    def write(self, entry: bytes) -> None:
        while entry:
            entry = entry[os.write(STANDARD_ERROR, entry) :]


def fields(record: logging.LogRecord, text: str, identifier: str) -> dict[str, str]:
    """What a record is in the journal (systemd.journal-fields(7)); several lines stay one entry."""
    ours = {key: str(value) for key, value in vars(record).items() if key.startswith("LLMGW_") and value}
    return {
        "MESSAGE": _cut(text),
        "PRIORITY": _priority(record.levelno),
        "SYSLOG_IDENTIFIER": identifier,
        "LOGGER": record.name,
        "CODE_FILE": record.pathname,
        "CODE_LINE": str(record.lineno),
        "CODE_FUNC": record.funcName or "",
        **ours,
    }


def encode(entry: Mapping[str, str]) -> bytes:
    """One datagram of the native protocol (systemd.io/JOURNAL_NATIVE_PROTOCOL)."""
    datagram = bytearray()
    for name, text in entry.items():
        value = text.encode(errors="backslashreplace")
        if b"\n" in value:
            datagram += name.encode() + b"\n" + struct.pack("<Q", len(value)) + value + b"\n"
        else:
            datagram += name.encode() + b"=" + value + b"\n"
    return bytes(datagram)


def _priority(level: int) -> str:
    """The level of syslog(3) for one of logging's."""
    steps = ((logging.CRITICAL, "2"), (logging.ERROR, "3"), (logging.WARNING, "4"), (logging.INFO, "6"))
    return next((priority for least, priority in steps if level >= least), "7")


def _cut(text: str) -> str:
    encoded = text.encode(errors="backslashreplace")
    if len(encoded) <= LONGEST_MESSAGE_BYTES:
        return text
    return encoded[:LONGEST_MESSAGE_BYTES].decode(errors="ignore") + " …"


def _notice(lost: int) -> logging.LogRecord:
    text = f"{lost} lines of this log were lost: they could not be written in time"
    return logging.LogRecord(__name__, logging.WARNING, __file__, 0, text, None, None)
