"""Word to the service manager, against a socket of our own."""

import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from llmgwd.host.notify import Notifier, watchdog_interval_s


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """What listens on NOTIFY_SOCKET."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.setblocking(False)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        yield manager


@pytest.fixture
def notifier(manager: socket.socket) -> Iterator[Notifier]:
    notifier = Notifier()
    yield notifier
    notifier._notifier.socket.close()


def heard(manager: socket.socket) -> list[str]:
    """Every message that has arrived."""
    found = []
    while True:
        try:
            found.append(manager.recv(65536).decode())
        except BlockingIOError:
            return found


@pytest.mark.parametrize(
    ("say", "words"),
    [
        (lambda to: to.ready("2 shards, 1 orphan"), "READY=1\nSTATUS=2 shards, 1 orphan"),
        (lambda to: to.status("no shards"), "STATUS=no shards"),
        (lambda to: to.reloading(123456789), "RELOADING=1\nMONOTONIC_USEC=123456789"),
        (lambda to: to.stopping(), "STOPPING=1"),
        (lambda to: to.alive(), "WATCHDOG=1"),
    ],
)
def test_each_word_is_one_message(
    manager: socket.socket, notifier: Notifier, say: Callable[[Notifier], None], words: str
) -> None:
    say(notifier)
    assert heard(manager) == [words]


def test_a_status_of_any_letters_arrives(manager: socket.socket, notifier: Notifier) -> None:
    notifier.ready("shard é€😀 \ud800 is up")
    assert heard(manager) == ["READY=1\nSTATUS=shard ??? ? is up"]


def test_an_abstract_socket_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind("")
        manager.setblocking(False)
        monkeypatch.setenv("NOTIFY_SOCKET", f"@{manager.getsockname()[1:].decode()}")
        notifier = Notifier()
        notifier.alive()
        notifier._notifier.socket.close()
        assert heard(manager) == ["WATCHDOG=1"]


def test_a_manager_that_does_not_listen_is_never_waited_for(
    manager: socket.socket, notifier: Notifier
) -> None:
    for _ in range(10_000):
        notifier.alive()
    received = heard(manager)
    assert 0 < len(received) < 10_000
    notifier.alive()
    assert heard(manager) == ["WATCHDOG=1"]


@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")  # sdnotify 0.3.2 drops it
def test_without_a_manager_nothing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    Notifier().ready("alone")
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "nobody"))
    Notifier().ready("alone")


def test_a_manager_that_has_gone_is_no_error(manager: socket.socket, notifier: Notifier) -> None:
    manager.close()
    notifier.alive()


@pytest.mark.parametrize(
    ("usec", "pid", "seconds"),
    [
        ("30000000", None, 30.0),
        ("1500000", str(os.getpid()), 1.5),
        ("30000000", "1", 0.0),
        ("30000000", "", 30.0),
        (None, None, 0.0),
        ("", None, 0.0),
        ("soon", None, 0.0),
        ("-1", None, 0.0),
        ("0", None, 0.0),
    ],
)
def test_the_watchdog_wants_to_hear_of_this_process_in_time(
    monkeypatch: pytest.MonkeyPatch, usec: str | None, pid: str | None, seconds: float
) -> None:
    for name, value in (("WATCHDOG_USEC", usec), ("WATCHDOG_PID", pid)):
        monkeypatch.delenv(name, raising=False)
        if value is not None:
            monkeypatch.setenv(name, value)
    assert watchdog_interval_s() == seconds
