"""`llmgwctl plan`: command lines that a shell takes."""

import shlex
import subprocess

from llmgwd.cli.plan import shell_line
from tests.fakes.command import Outcome
from tests.fakes.node import FakeNode

HEAD = {
    "name": "ray-head", "argv": ["/usr/bin/ray", "start", "--head"], "environment": {},
    "working_directory": "/var/lib/llmgw", "waits_for": [], "warnings": ["no executable /usr/bin/vllm"],
}  # fmt: skip
ENGINE = {
    "name": "engine", "argv": ["/usr/bin/vllm", "serve", "my model", "--json={\"a\": 1}"],
    "environment": {"NCCL_SOCKET_IFNAME": "eth0", "NAME": "it's $HOME"}, "working_directory": "",
    "waits_for": ["10.0.0.1:6379"], "warnings": ["no executable /usr/bin/vllm", "port 8000 is taken"],
}  # fmt: skip


def test_a_plan_prints_what_would_run_and_warns_beside_it(node: FakeNode) -> None:
    node.do("set", what="commands", value=[HEAD, ENGINE])

    assert node.run("plan", "a", "--engine", "vllm", "--", "--x") == Outcome(
        0,
        """\
# ray-head, in /var/lib/llmgw
/usr/bin/ray start --head
# engine
# waits for 10.0.0.1:6379
NCCL_SOCKET_IFNAME=eth0 NAME='it'"'"'s $HOME' /usr/bin/vllm serve 'my model' '--json={"a": 1}'
""",
        "llmgwctl: warning: no executable /usr/bin/vllm\nllmgwctl: warning: port 8000 is taken\n",
    )
    assert node.calls() == [["PlanShard", "a", {"engine": ["s", "vllm"], "args": ["as", ["--x"]]}]]


def test_a_plan_for_programs_is_what_the_daemon_answers(node: FakeNode) -> None:
    node.do("set", what="commands", value=[HEAD, ENGINE])

    outcome = node.run("plan", "a", "--engine", "vllm", "--json")

    assert (outcome.status, outcome.err, outcome.json) == (0, "", [HEAD, ENGINE])


def test_a_shell_runs_the_line_as_it_was_planned() -> None:
    environment = {"A": 'it\'s "$HOME" * \\ \n two', "B": "", "not.a-name": "x y"}
    program = "import json, os, sys; print([os.environ[name] for name in sys.argv[1:4]], sys.argv[4:])"
    arguments = ["", "a b", "*", "$(id)", "'", "--x=[1, 2]"]

    line = shell_line(["/usr/bin/python3", "-c", program, *environment, *arguments], environment)

    printed = subprocess.run(["/bin/sh", "-c", line], check=True, capture_output=True, text=True).stdout
    assert printed == f"{list(environment.values())} {arguments}\n"
    assert shlex.split(line)[-6:] == arguments
