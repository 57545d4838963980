"""Streams to journald and the wait for it, against a journald of our own."""

import fcntl
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from llmgwd.host import journal
from llmgwd.host.journal import JournalUnavailable, open_stream, synchronize


@pytest.fixture
def runtime_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(journal, "RUNTIME_DIRECTORY", str(tmp_path))
    (tmp_path / "journal").mkdir()
    (tmp_path / "journal.llmgw").mkdir()
    return tmp_path


@contextmanager
def listening(path: Path, backlog: int = 8) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(path))
        listener.listen(backlog)
        yield listener


@contextmanager
def answering(path: Path, answer: Callable[[socket.socket], None]) -> Iterator[None]:
    """A varlink service that takes one call and then does what `answer` does."""

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            assert connection.recv(4096) == b'{"method":"io.systemd.Journal.Synchronize"}\0'
            answer(connection)

    with listening(path) as listener:
        service = threading.Thread(target=serve)
        service.start()
        yield
        service.join()


def received(listener: socket.socket, stream: socket.socket) -> bytes:
    """What journald gets from a stream, once our end is closed."""
    connection, _ = listener.accept()
    with connection, connection.makefile("rb") as everything:
        stream.close()
        return everything.read()


@pytest.mark.parametrize(("namespace", "directory"), [("llmgw", "journal.llmgw"), ("", "journal")])
def test_a_stream_begins_with_its_header(runtime_directory: Path, namespace: str, directory: str) -> None:
    with listening(runtime_directory / directory / "stdout") as listener:
        stream = open_stream("org/a b/engine", "llmgw-shard-a.scope", namespace=namespace)
        os.write(stream.fileno(), b"Loading\n")
        assert received(listener, stream) == (
            b"org/a b/engine\nllmgw-shard-a.scope\n6\n0\n0\n0\n0\nLoading\n"
        )  # fmt: skip


def test_the_priority_stands_in_the_header(runtime_directory: Path) -> None:
    with listening(runtime_directory / "journal.llmgw/stdout") as listener:
        stream = open_stream("a/engine", "u.scope", namespace="llmgw", priority=3)
        assert received(listener, stream) == b"a/engine\nu.scope\n3\n0\n0\n0\n0\n"


def test_a_stream_blocks_its_writer_is_shut_for_reading_and_closed_on_exec(runtime_directory: Path) -> None:
    with (
        listening(runtime_directory / "journal.llmgw/stdout"),
        open_stream("a/engine", "u.scope", namespace="llmgw") as stream,
    ):
        flags = (os.get_blocking(stream.fileno()), stream.recv(1), fcntl.fcntl(stream, fcntl.F_GETFD))
        assert flags == (True, b"", fcntl.FD_CLOEXEC)


def test_a_stream_takes_a_burst_while_journald_is_away(runtime_directory: Path) -> None:
    with (
        listening(runtime_directory / "journal.llmgw/stdout"),
        open_stream("a/engine", "u.scope", namespace="llmgw") as stream,
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as ordinary,
    ):
        buffer_bytes = stream.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
        assert buffer_bytes > ordinary.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)


def test_a_namespace_that_is_not_there_is_named_with_what_brings_it(runtime_directory: Path) -> None:
    with pytest.raises(JournalUnavailable) as refused:
        open_stream("a/engine", "u.scope", namespace="llmgw")
    assert str(refused.value) == (
        f"cannot open a journal stream: {runtime_directory}/journal.llmgw/stdout: No such file or directory"
        " (is systemd-journald@llmgw.socket started?)"
    )
    assert isinstance(refused.value.__cause__, FileNotFoundError)


def test_a_socket_that_nobody_listens_on_is_an_error_at_once(runtime_directory: Path) -> None:
    path = runtime_directory / "journal/stdout"
    with listening(path):
        pass
    with pytest.raises(JournalUnavailable) as refused:
        open_stream("a/engine", "u.scope", namespace="")
    assert str(refused.value) == f"cannot open a journal stream: {path}: Connection refused"


def test_a_journald_that_accepts_nothing_is_an_error_and_no_wait(runtime_directory: Path) -> None:
    path = runtime_directory / "journal.llmgw/stdout"
    with (
        listening(path, backlog=0),
        open_stream("a/engine", "u.scope", namespace="llmgw"),
        pytest.raises(JournalUnavailable) as refused,
    ):
        open_stream("b/engine", "u.scope", namespace="llmgw")
    assert str(refused.value) == (
        f"cannot open a journal stream: {path}: Resource temporarily unavailable"
        " (journald accepts no connections)"
    )


@pytest.mark.parametrize(("namespace", "directory"), [("llmgw", "journal.llmgw"), ("", "journal")])
def test_journald_is_asked_to_write_out_what_it_has(
    runtime_directory: Path, namespace: str, directory: str
) -> None:
    def answer(connection: socket.socket) -> None:
        connection.sendall(b'{"parameters"')
        connection.sendall(b":{}}\0")

    with answering(runtime_directory / directory / "io.systemd.journal", answer):
        assert synchronize(namespace) is True


@pytest.mark.parametrize(
    "reply",
    [
        b'{"error":"org.varlink.service.MethodNotFound","parameters":{}}\0',
        b'{"parameters":',
        b"",
        b"no json\0",
        b"7\0",
    ],
)
def test_any_other_answer_means_not_synchronized(runtime_directory: Path, reply: bytes) -> None:
    with answering(runtime_directory / "journal.llmgw/io.systemd.journal", lambda it: it.sendall(reply)):
        assert synchronize("llmgw") is False


def test_a_journald_that_does_not_answer_is_not_waited_for_any_longer(runtime_directory: Path) -> None:
    given_up = threading.Event()

    def keep_silent(_: socket.socket) -> None:
        assert given_up.wait(10)

    with answering(runtime_directory / "journal.llmgw/io.systemd.journal", keep_silent):
        outcome = synchronize("llmgw", timeout_s=0.01)
        given_up.set()
    assert outcome is False


def test_no_journald_to_ask_means_not_synchronized(runtime_directory: Path) -> None:
    assert synchronize("llmgw") is False
