"""An engine that another package brings, as the documentation shows it: listed, started, ready."""

import json
from collections.abc import Iterator, Mapping

import pytest

from llmgwd.host.engine_packages import GROUP
from tests import engine_package
from tests.machine.machine import Machine
from tests.machine.node import CONFIG, CONFIGURED, DAEMON, Node
from tests.machine.specs import engine

BROKEN = {"broken.py": "import nothing_that_is_there\n"} | engine_package.installed(
    "broken", {GROUP: {"broken": "broken:Broken"}}
)
ENDS = {"ends.py": "import sys\nsys.exit(0)\n"} | engine_package.installed(
    "ends", {GROUP: {"ends": "ends:Ends"}}
)
ODD = {
    "odd.py": """
import sys
from llmgwd.engines.engine import Traits
from llmgwd.engines.plan import Plan

class Odd:
    name = "odd"
    traits = Traits(executable="/bin/true")
    def plan(self, spec, facts, args, environment):
        return sys.exit(3) if spec.model == "exit" else Plan((), (), None)
"""
} | engine_package.installed("odd", {GROUP: {"odd": "odd:Odd"}})
# The engine that the package is for. Of its options the fake one knows no --host.
PROGRAM = f"""#!/usr/bin/python3
import os, sys
place = sys.argv.index("--host")
command = {engine()!r}
os.execv(command[0], [*command, *sys.argv[1:place], *sys.argv[place + 2:]])
"""
CONFIGURATION = (
    CONFIGURED + '[engines.textgen]\nenvironment = { A = "1" }\n[engines.broken]\nargs = ["--x"]\n'
)


@pytest.fixture(scope="module")
def textgen() -> Iterator[Node]:
    with Machine("textgen", files={CONFIG: CONFIGURATION}) as machine:
        install(machine, engine_package.files() | BROKEN | ENDS | ODD)
        program = machine.path("/usr/local/bin/textgen-server")
        program.write_text(PROGRAM)
        program.chmod(0o755)
        machine.run(["systemctl", "start", DAEMON])
        yield Node(machine)


def install(machine: Machine, files: Mapping[str, str]) -> None:
    """Beside llmgwd, as pip would."""
    where = "import importlib.util as u; print(u.find_spec('llmgwd').submodule_search_locations[0])"
    place = machine.run(["/usr/bin/python3", "-sP", "-c", where]).stdout.strip()
    for name, text in files.items():
        path = machine.path(place).parent / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")


def test_the_node_lists_it_and_says_why_another_cannot_be_used(textgen: Node) -> None:
    shown = textgen.machine.run(["llmgwctl", "node", "--json"]).stdout
    node = json.loads(shown)
    complaints = [
        (
            "engine broken of package broken cannot be used: ModuleNotFoundError: "
            "No module named 'nothing_that_is_there'"
        ),
        "engine ends of package ends cannot be used: SystemExit: 0",
    ]
    assert node["warnings"][:2] == complaints
    assert [name for name in ("textgen", "broken", "ends", "odd") if name in node["engines"]] == [
        "textgen",
        "odd",
    ]
    assert [entry["MESSAGE"] for entry in textgen.log() if "cannot be used" in entry["MESSAGE"]] == [
        f"this node: {complaint}" for complaint in complaints
    ]


def test_it_serves_and_has_its_configuration(textgen: Node) -> None:
    machine = textgen.machine
    machine.run(["llmgwctl", "start", "a", "--engine", "textgen", "--model", "tiny", "--wait"])
    ready = textgen.shard("a")
    variables = machine.path(f"/proc/{ready['Pid']}/environ").read_bytes().split(b"\0")
    assert (ready["Reason"], ready["Endpoint"], b"A=1" in variables) == (
        "serves tiny",
        "http://127.0.0.1:8500",
        True,
    )
    machine.run(["llmgwctl", "stop", "a"])
    assert textgen.shard("a")["State"] == "stopped"


def test_what_it_refuses_reaches_the_caller(textgen: Node) -> None:
    refused = textgen.machine.run(
        ["llmgwctl", "plan", "b", "--engine", "textgen", "--model", "m", "--", "--port", "1"], check=False
    )
    assert (refused.returncode, refused.stdout, refused.stderr.strip()) == (
        1,
        "",
        "llmgwctl: cannot plan shard b: InvalidSpec: args: got --port, which the key port sets: use port",
    )


@pytest.mark.parametrize(
    ("model", "why"),
    [
        ("m", "makes a plan that cannot be run: processes: the last one has to be named engine"),
        ("exit", "makes no plan: SystemExit: 3"),
    ],
)
def test_one_whose_plan_is_none_is_named_and_disturbs_nobody(textgen: Node, model: str, why: str) -> None:
    daemon = textgen.daemon_pid()
    for verb in ("plan", "start"):
        refused = textgen.machine.run(
            ["llmgwctl", verb, "c", "--engine", "odd", "--model", model], check=False
        )
        assert (refused.returncode, refused.stderr.strip()) == (
            1,
            f"llmgwctl: cannot {verb} shard c: EngineUnavailable: engine odd {why}",
        )
    assert (textgen.daemon_pid(), "c" in textgen.shards()) == (daemon, False)
