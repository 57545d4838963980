"""What an engine is given, and what it is not: told by the engine itself."""

import json
import signal
from typing import Any

import pytest

from tests.machine.machine import TREE_INSIDE
from tests.machine.node import Node
from tests.machine.specs import fake

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def dumped(node: Node, id: str = "a", **spec: object) -> dict[str, Any]:
    arguments = ("", "-x", "*", "a b", "$HOME `id`", '{"a": [1, 2]}', "new\nline")
    node.started(id, **{"command": fake("dumper", *arguments)} | spec)
    (line,) = node.machine.wait_for("it has told", lambda: node.tail(id))
    return dict(json.loads(line))


def identity(node: Node, *what: str) -> int:
    return int(node.machine.run(["id", *what]).stdout)


def test_an_engine_gets_its_own_user_arguments_and_environment_and_nothing_of_the_daemons(node: Node) -> None:
    tricky = {"QUOTED": 'a "b" \\ $HOME %h', "LINES": "x\ny\n", "EMPTY": "", "EQUALS": "a=b", "odd.name": "1"}
    got = dumped(node, environment=tricky | {"LD_DEBUG_OUTPUT": "/tmp/x"})
    uid, gid = identity(node, "-u", "llmgw"), identity(node, "-g", "llmgw")
    groups = {
        gid,
        *(
            int(line.split(":")[2])
            for line in node.machine.run(
                ["getent", "group", "video", "render"], check=False
            ).stdout.splitlines()
        ),
    }
    assert got | {"limits": {}} == {
        "argv": [
            f"{TREE_INSIDE}/tests/fakes/dumper.py",
            *("", "-x", "*", "a b", "$HOME `id`", '{"a": [1, 2]}', "new\nline"),
        ],
        "environment": {
            "PATH": PATH,
            "LANG": "C.UTF-8",
            "HOME": "/var/lib/llmgw",
            "USER": "llmgw",
            "LOGNAME": "llmgw",
            "SHELL": got["environment"]["SHELL"],
            "LD_DEBUG_OUTPUT": "/tmp/x",
            **tricky,
        },
        "descriptors": {"0": "/dev/null", "1": "socket", "2": "socket"},
        "capabilities": dict.fromkeys(("CapInh", "CapPrm", "CapEff", "CapAmb"), "0" * 16),
        "blocked": "0" * 16,
        "uids": [uid] * 3,
        "gids": [gid] * 3,
        "groups": sorted(groups),
        "directory": "/var/lib/llmgw",
        "umask": "0027",
        "cgroup": "/llmgw.slice/llmgw-shard-a.scope",
        "oom_score_adj": 0,
        "limits": {},
        "leads_its_session": True,
    }


def test_an_engines_limits_are_the_configurations_as_far_as_this_host_lets(node: Node) -> None:
    limits = dumped(node)["limits"]
    hard = node.machine.run(["sh", "-c", "ulimit -H -n; ulimit -H -l"]).stdout.split()
    assert limits["NOFILE"][0] == min(1048576, int(hard[0]))
    assert limits["MEMLOCK"][0] == (-1 if hard[1] == "unlimited" else int(hard[1]) * 1024)


@pytest.mark.parametrize("after", ["a restart", "a start by another shard's user"])
def test_an_adopted_or_second_engine_gets_the_same(node: Node, after: str) -> None:
    first = dumped(node, "first")
    if after == "a restart":
        node.kill_daemon()
    second = dumped(node, "second")
    assert second | {"cgroup": ""} == first | {"cgroup": ""}


def test_variables_come_from_files_of_the_allowed_folder_and_the_spec_wins_over_them(node: Node) -> None:
    node.machine.path("/etc/llmgwd/env.d/test").write_text("# a comment\nTOKEN=secret = 1\nA=file\n\n")
    got = dumped(node, environment_files=["/etc/llmgwd/env.d/test"], environment={"A": "spec"})
    assert {name: got["environment"][name] for name in ("TOKEN", "A")} == {"TOKEN": "secret = 1", "A": "spec"}
    seen = json.dumps(node.shard("a")) + node.machine.run(["ps", "axww", "-o", "args"]).stdout
    assert "secret" not in seen


def test_nothing_secret_is_shown_and_records_are_roots_alone(node: Node) -> None:
    node.started("a", command=fake("dumper"), environment={"HF_TOKEN": "secret123", "odd.token": "secret123"})
    assert node.shard("a")["Spec"]["environment"] == ["HF_TOKEN", "odd.token"]
    node.stop("a")
    node.wait_state("a", "stopped")
    look = "ps axeww -o args; cat /var/lib/llmgwd/*; systemctl show 'llmgw-shard-*'; ls -l /var/lib/llmgwd"
    assert "secret123" not in node.machine.run(["sh", "-c", look], user="nobody", check=False).stdout
    assert "secret123" not in node.machine.journal("--identifier=llmgwd")
    modes = node.machine.run(
        ["sh", "-c", "stat -c '%a %U' /var/lib/llmgwd /var/lib/llmgwd/llmgw-shard-a.json"]
    ).stdout
    assert modes == "700 root\n600 root\n"


@pytest.mark.parametrize("name", ["HF_TOKEN", "LD_LIBRARY_PATH", "odd.token"])
def test_no_variable_can_be_read_in_a_list_of_processes(node: Node, name: str) -> None:
    node.started("a", command=["/usr/bin/sleep", "1000"], environment={name: "secret123"})
    assert "secret123" not in node.machine.run(["ps", "axww", "-o", "args"], user="nobody").stdout


def test_an_engine_ignores_no_signal_but_sigpipe_as_in_a_service(node: Node) -> None:
    """Told by a program that changes nothing about its signals."""
    node.started("a", command=["/bin/sh", "-c", "grep -E 'Sig(Ign|Blk)' /proc/self/status; exec sleep 1000"])
    told = node.machine.wait_for("it has told", lambda: node.tail("a"))
    # 32 and 33 are the C library's own: no program can set them, and whoever ran these tests may ignore them.
    masks = [int(line.partition("\t")[2], 16) & ~(0b11 << 31) for line in told]
    assert masks == [0, 1 << (signal.SIGPIPE - 1)]


def test_limits_of_the_scope_are_those_of_the_spec(node: Node) -> None:
    limits = {
        "memory_max": 1 << 30,
        "cpu_weight": 50,
        "tasks_max": 100,
        "allowed_cpus": "0",
        "stop_timeout_s": 7.5,
    }
    node.started("a", command=["/usr/bin/sleep", "1000"], **limits)
    names = ("MemoryMax", "CPUWeight", "TasksMax", "AllowedCPUs", "TimeoutStopUSec", "Slice", "CollectMode")
    shown = node.systemctl("show", *(f"--property={name}" for name in names), "llmgw-shard-a.scope")
    assert dict(line.split("=", 1) for line in shown.splitlines()) == {
        "MemoryMax": str(1 << 30),
        "CPUWeight": "50",
        "TasksMax": "100",
        "AllowedCPUs": "0",
        "TimeoutStopUSec": "7.500000s",
        "Slice": "llmgw.slice",
        "CollectMode": "inactive-or-failed",
    }
