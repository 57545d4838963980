"""What is said to journald: an engine's output streams, and the wait until their lines can be read.

An engine writes into its stream without the daemon; the daemon only opens it.
"""

import errno
import json
import socket
import time

RUNTIME_DIRECTORY = "/run/systemd"

# What PID 1 and libsystemd ask for on their streams (SNDBUF_SIZE): an engine goes on while journald restarts.
SO_SNDBUFFORCE = 32  # socket(7); the socket module does not name it
SEND_BUFFER_BYTES = 8 * 1024 * 1024


class JournalUnavailable(Exception):  # noqa: N818 - a state of the host, as the errors of the contract are named
    """The journal cannot be reached or read: the text names socket or namespace, the cause is the OSError."""


def open_stream(identifier: str, unit: str, *, namespace: str, priority: int = 6) -> socket.socket:
    """Open a stream that a process takes as its standard output and error.

    `unit` is what lines get as _SYSTEMD_UNIT= when their writer has gone before journald looks (journald
    believes it from root only). An empty `namespace` is the host's journal, `priority` a syslog level.
    The socket is blocking, closed on exec and shut for reading. Opening it never waits.
    Raises JournalUnavailable where there is no such socket, or journald takes no more connections.
    Source: systemd, sd_journal_stream_fd(3) and src/journal/journald-stream.c.
    """
    path = _socket_path(namespace, "stdout")
    no_prefixes_nothing_forwarded = ("0", "0", "0", "0")
    header = "\n".join((identifier, unit, str(priority), *no_prefixes_nothing_forwarded, "")).encode()
    stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        stream.setblocking(False)
        stream.connect(path)
        stream.shutdown(socket.SHUT_RD)
        _widen(stream)
        stream.sendall(header)
        stream.setblocking(True)
    except OSError as error:
        stream.close()
        raise JournalUnavailable(_why(path, namespace, error)) from error
    return stream


def synchronize(namespace: str, timeout_s: float = 2.0) -> bool:
    """Wait until journald has written all that it was sent so far; says whether it did in that time.

    False where it cannot be asked (no such socket, not root), does not answer, or answers an error: what is
    in the journal by then can still be read. Blocks: belongs in a thread.
    Source: systemd, src/journal/journald-server.c (io.systemd.Journal); varlink.org for the framing.
    """
    deadline = time.monotonic() + timeout_s
    reply = b""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link:
            link.settimeout(timeout_s)
            link.connect(_socket_path(namespace, "io.systemd.journal"))
            link.sendall(b'{"method":"io.systemd.Journal.Synchronize"}\0')
            while not reply.endswith(b"\0"):
                link.settimeout(max(deadline - time.monotonic(), 0.001))
                piece = link.recv(4096)
                if not piece:
                    return False
                reply += piece
        answer = json.loads(reply[:-1])
    except (OSError, ValueError):
        return False
    return isinstance(answer, dict) and "error" not in answer


def _socket_path(namespace: str, name: str) -> str:
    return f"{RUNTIME_DIRECTORY}/journal{namespace and '.' + namespace}/{name}"


def _widen(stream: socket.socket) -> None:
    try:
        stream.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, SEND_BUFFER_BYTES)
    except PermissionError:  # without CAP_NET_ADMIN the kernel gives as much as net.core.wmem_max allows
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)


def _why(path: str, namespace: str, error: OSError) -> str:
    text = f"cannot open a journal stream: {path}: {error.strerror}"
    if error.errno == errno.EAGAIN:
        return f"{text} (journald accepts no connections)"
    if error.errno in {errno.ENOENT, errno.ECONNREFUSED} and namespace:
        # an instance that ended because it was idle comes back by its socket; without that, nothing does
        return f"{text} (is systemd-journald@{namespace}.socket started?)"
    return text
