"""Engines' output through a journal namespace of a booted machine, and the daemon's own in the host's."""

import json

import pytest

from tests.machine.machine import TREE_INSIDE, Machine

JOURNALD = "systemd-journald@llmgw.service"


@pytest.fixture(scope="module")
def node(shared_machine: Machine) -> Machine:
    """A machine with the engines' journal and without a daemon."""
    shared_machine.run(["systemctl", "start", "llmgw.slice"])
    return shared_machine


def inside_command(step: str, *arguments: str) -> list[str]:
    return ["/usr/bin/python3", "-B", "-m", "tests.machine.journal_inside", step, *arguments]


def inside(node: Machine, step: str, *arguments: str) -> object:
    """The result of a step of journal_inside.py."""
    done = node.run(inside_command(step, *arguments), environment={"PYTHONPATH": TREE_INSIDE}, timeout_s=120)
    return json.loads(done.stdout)


def test_a_burst_of_100_000_lines_arrives_whole_and_under_its_scope(node: Machine) -> None:
    inside(node, "write", "burst", "seq 100000")
    printed = node.journal(
        "--namespace=llmgw",
        "--output=cat",
        "--unit=llmgw-shard-burst-*.scope",
        "SYSLOG_IDENTIFIER=burst/engine",
    )
    assert printed.split() == [str(number) for number in range(1, 100_001)]


def test_the_last_line_of_an_engine_that_died_at_once_is_in_its_tail(node: Machine) -> None:
    assert inside(node, "last_words", "brief", "50") == [[str(number)] for number in range(50)]


def test_lines_of_engines_that_died_at_once_are_under_their_scopes(node: Machine) -> None:
    inside(node, "last_words", "gone", "20")
    printed = node.journal(
        "--namespace=llmgw", "--output=cat", "--unit=llmgw-shard-gone-*.scope", "_TRANSPORT=stdout"
    )
    assert printed.split() == [str(number) for number in range(20)]


def test_a_tail_is_the_last_lines_of_this_run_across_rotated_files(node: Machine) -> None:
    inside(node, "write", "twice", "echo of the run before")
    node.run(["journalctl", "--namespace=llmgw", "--rotate"])
    assert inside(node, "write_and_tail", "twice", "seq 600") == [str(number) for number in range(89, 601)]
    node.run(["journalctl", "--namespace=llmgw", "--rotate"])
    inside(node, "write", "twice", "seq 601 610")
    assert inside(node, "tail", "twice", "20") == [str(number) for number in range(591, 611)]


def test_processes_of_a_shard_come_in_the_order_of_time(node: Machine) -> None:
    assert inside(node, "tail_of_many", "many", "ray-head", "engine", "worker", "api") == [
        ["engine", "engine was here"],
        ["worker", "worker was here"],
        ["api", "api was here"],
    ]


def test_lines_are_joined_decoded_and_made_harmless(node: Machine) -> None:
    program = r"""
        printf '\377\376\200 not UTF-8\n'
        (printf a; yes € | head -n 40000) | tr -d '\n'; echo
        printf '  1 %%\r  2 %%\r  3 %%\n'
        printf '\033[32mgreen\033[0m\tbell \a\n'
        printf 'between\0zeros\n'
        printf 'no newline at the end'
    """
    assert inside(node, "write_and_tail", "text", program) == [
        "\ufffd\ufffd\ufffd not UTF-8",
        "a" + "€" * 40_000,
        "  3 %",
        "green\tbell \\x07",
        "between",
        "zeros",
        "no newline at the end",
    ]


def test_an_endless_line_is_cut_and_what_follows_arrives(node: Machine) -> None:
    program = "head -c 5000000 /dev/zero | tr '\\0' x; echo; echo next"
    assert inside(node, "write_and_tail", "endless", program) == [
        f"[{5_000_000 - 256 * 1024} bytes cut] {'x' * 256 * 1024}",
        "next",
    ]


def test_a_stranger_cannot_add_to_a_tail(node: Machine) -> None:
    forge = """
import socket
fields = b"SYSLOG_IDENTIFIER=forged/engine\\n_UID=0\\n_TRANSPORT=stdout\\n"
datagram = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
datagram.sendto(fields + b"MESSAGE=native\\n", "/run/systemd/journal.llmgw/socket")
stream = socket.socket(socket.AF_UNIX)
stream.connect("/run/systemd/journal.llmgw/stdout")
stream.sendall(b"forged/engine\\nllmgw-shard-forged.scope\\n6\\n0\\n0\\n0\\n0\\nstream\\n")
"""
    node.run(["/usr/bin/python3", "-c", forge], user="nobody")
    inside(node, "write", "forged", "echo true")
    every_claim = node.journal("--namespace=llmgw", "--output=cat", "SYSLOG_IDENTIFIER=forged/engine")
    assert (sorted(every_claim.split()), inside(node, "tail", "forged")) == (
        ["native", "stream", "true"],
        ["true"],
    )


def test_another_user_inside_the_scope_is_the_engine_too(node: Machine) -> None:
    program = "echo root; exec setpriv --reuid=100007 echo mapped"
    assert inside(node, "write_and_tail", "mapped", program, "root") == ["root", "mapped"]


@pytest.mark.parametrize("how", ["kill", "restart"])
def test_a_stream_outlives_a_journald_that_dies(node: Machine, how: str) -> None:
    commands = {
        "kill": f"kill -9 $(systemctl show -P MainPID {JOURNALD})",
        "restart": f"systemctl restart {JOURNALD}",
    }
    program = f"echo before; {commands[how]}; sleep 0.3; echo after; echo and more"
    assert inside(node, "write_and_tail", f"outlives-{how}", program, "root") == [
        "before",
        "after",
        "and more",
    ]


def test_a_journald_that_is_down_comes_back_for_a_stream(node: Machine) -> None:
    node.run(["systemctl", "stop", JOURNALD])
    assert inside(node, "write_and_tail", "wakes", "echo up") == ["up"]


def test_tails_leave_no_descriptor_behind(node: Machine) -> None:
    inside(node, "write", "tails", "echo one")
    assert inside(node, "descriptors_that_tails_leave", "tails", "200") == 0


def test_without_its_socket_the_refusal_says_what_is_missing(node: Machine) -> None:
    node.run(["systemctl", "stop", "llmgw.slice", "systemd-journald@llmgw.socket", JOURNALD])
    try:
        text = inside(node, "refusal")
    finally:
        node.run(["systemctl", "start", "llmgw.slice"])
    assert text == (
        "cannot open a journal stream: /run/systemd/journal.llmgw/stdout: Connection refused"
        " (is systemd-journald@llmgw.socket started?)"
    )


@pytest.fixture(scope="module")
def logged(node: Machine) -> list[dict[str, str]]:
    """What the host's journal has of a service whose event loop logged while journald was stopped."""
    journald = node.run(["systemctl", "show", "--property=MainPID", "--value", "systemd-journald.service"])
    node.run(
        [
            "systemd-run", "--quiet", "--wait", "--collect", "--unit=logs.service",
            f"--setenv=PYTHONPATH={TREE_INSIDE}",
            *inside_command("log_past_a_stopped_journald", journald.stdout.strip(), "5000"),
        ]
    )  # fmt: skip
    entries = node.journal("--output=json", "--unit=logs.service", "SYSLOG_IDENTIFIER=llmgwd")
    return [json.loads(entry) for entry in entries.splitlines()]


def test_the_daemons_lines_are_entries_with_the_fields_of_their_shard(logged: list[dict[str, str]]) -> None:
    named = ("MESSAGE", "PRIORITY", "LLMGW_SHARD", "LLMGW_REPLICA", "LLMGW_STATE", "CODE_FUNC", "CODE_ARGS")
    assert [logged[0].get(name) for name in named] == [
        "shard a failed:\nlast words",
        "3",
        "a",
        "r",
        "failed",
        "log_past_a_stopped_journald",
        None,
    ]


def test_a_stopped_journald_holds_up_no_event_loop_and_what_was_lost_is_told(
    logged: list[dict[str, str]],
) -> None:
    """5 MB of the daemon's own lines, more than any queue takes."""
    messages = [entry["MESSAGE"] for entry in logged]
    arrived = sum(message.startswith("line ") for message in messages)
    told = [int(message.split()[0]) for message in messages if "lines of this log were lost" in message]
    assert 0 < arrived < 5000
    assert sum(told) == 5000 - arrived
