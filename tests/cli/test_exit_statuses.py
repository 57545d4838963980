"""How commands end that do not get what they want: one line, and a status that scripts can rely on."""

import os
from pathlib import Path
from signal import SIGINT

import pytest

from tests.fakes.command import Outcome
from tests.fakes.node import FakeNode

DENIED = "org.freedesktop.DBus.Error.AccessDenied"
NOBODY = "llmgwctl: cannot reach llmgwd: nobody owns org.llmgw.Node1 on the bus, is it running?\n"


@pytest.mark.parametrize(
    "words", ["list", "start a", "stop a", "wait a --for ready", "events", "logs a -f", "reload"]
)
def test_a_daemon_that_is_not_there_ends_with_5(away: FakeNode, words: str) -> None:
    assert away.run(*words.split()) == Outcome(5, "", NOBODY)


def test_a_bus_that_is_not_there_ends_with_5(away: FakeNode, tmp_path: Path) -> None:
    nowhere = f"unix:path={tmp_path}/nowhere"

    assert away.beside(DBUS_SYSTEM_BUS_ADDRESS=nowhere).run("list") == Outcome(
        5,
        "",
        "llmgwctl: cannot reach llmgwd: cannot connect to the system bus: "
        f"{nowhere}: [Errno 2] No such file or directory\n",
    )


def test_the_users_daemon_is_on_the_session_bus(node: FakeNode) -> None:
    session = node.beside(DBUS_SYSTEM_BUS_ADDRESS="unix:path=/nowhere", DBUS_SESSION_BUS_ADDRESS=node.address)

    assert session.run("--user", "list", "--json") == Outcome(0, "[]\n")
    assert session.run("list", "--user", "--json") == Outcome(0, "[]\n")
    assert session.run("list").status == 5
    node.fail("Reload", DENIED, "AccessDenied: not allowed")
    assert session.run("reload", "--user") == Outcome(
        1, "", "llmgwctl: cannot reload the configuration: AccessDenied: not allowed\n"
    )


@pytest.mark.parametrize("error", [DENIED, "org.freedesktop.DBus.Error.InteractiveAuthorizationRequired"])
def test_who_may_not_is_told_who_may(node: FakeNode, error: str) -> None:
    node.put("a")
    node.fail("StopShard", error, "not yours")

    assert node.run("stop", "a") == Outcome(
        1, "", "llmgwctl: cannot stop shard a: AccessDenied: not yours (use sudo)\n"
    )


def test_an_error_that_the_contract_does_not_know_keeps_its_name(node: FakeNode) -> None:
    node.fail("Reload", "org.freedesktop.DBus.Error.UnknownMethod", "no method Reload")

    assert node.run("reload") == Outcome(
        1, "", "llmgwctl: cannot reload the configuration: UnknownMethod: no method Reload\n"
    )


def test_an_orphan_that_is_none_is_no_missing_shard(node: FakeNode) -> None:
    node.fail("KillOrphan", "org.llmgw.Node1.Error.NoSuchOrphan", "NoSuchOrphan: x.scope is none")

    assert node.run("kill-orphan", "x.scope") == Outcome(
        1, "", "llmgwctl: cannot kill orphan x.scope: NoSuchOrphan: x.scope is none\n"
    )


@pytest.mark.parametrize(
    "words",
    [
        "", "frobnicate", "start", "start --engine command -- sleep 5", "start a --port many",
        "start a --set port", "start a --set =1", "stop", "stop a --all", "wait", "wait a --for happy",
        "wait a --for ready --timeout -1",
        "logs a -n -1", "logs a --lines many", "kill-orphan", "lis", "list --js", "status a b",
    ],
)  # fmt: skip
def test_wrong_usage_ends_with_2(away: FakeNode, words: str) -> None:
    outcome = away.run(*words.split())

    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.err.splitlines()[-1].startswith("llmgwctl")


def test_an_interrupt_ends_silently_with_130(node: FakeNode) -> None:
    node.put("a", State="loading")
    wait = node.begin("wait", "a", "--for", "ready")
    node.await_answer("ListShards")
    line = wait.error_line()
    wait.signal(SIGINT)

    assert (line, wait.finish()) == ("a: loading\n", Outcome(130, ""))


def test_an_interrupt_ends_a_call_that_is_not_answered(node: FakeNode) -> None:
    node.do("hold", member="ListShards")
    listing = node.begin("list")
    node.await_answer("ListShards")
    listing.signal(SIGINT)

    assert listing.finish() == Outcome(130, "")


def test_a_reader_that_leaves_ends_the_output_silently(node: FakeNode) -> None:
    node.put("a", State="ready")
    reading, writing = os.pipe()
    os.close(reading)

    outcome = node.run("list", out=writing)
    os.close(writing)

    assert (outcome.status, outcome.err) == (141, "")


def test_a_full_disk_is_told(node: FakeNode) -> None:
    with open("/dev/full", "w") as full:
        outcome = node.run("list", out=full.fileno())

    assert (outcome.status, outcome.err) == (1, "llmgwctl: cannot write: No space left on device\n")


def test_an_id_that_the_locale_cannot_print_is_escaped(node: FakeNode) -> None:
    node.put("ü😀", State="ready")
    latin = node.beside(PYTHONIOENCODING="ascii")

    assert latin.run("list").out.splitlines()[1].split()[0] == "\\xfc\\U0001f600"
    assert latin.run("list", "--json").json[0]["id"] == "ü😀"


def test_bytes_that_are_no_text_are_refused(node: FakeNode) -> None:
    assert node.run("status", b"\xff") == Outcome(
        1,
        "",
        "llmgwctl: cannot show shard \\udcff: InvalidSpec: id: got '\\udcff', takes UTF-8 without NUL\n",
    )
