"""What StartShard refuses, by which name and in which words; ids that look odd and work all the same."""

import re
from collections.abc import Iterator, Mapping

import pytest

from tests.machine.monitor import Monitor, monitor
from tests.machine.node import SERVICE, Node, Refused, spelled
from tests.machine.specs import engine, serving
from tests.machine.spelling import Typed

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SLEEP = ["/usr/bin/sleep", "1000"]
TWO_NODES = {"nodes": 2, "leader_address": "127.0.0.1", "leader_port": 8200}
ID_TAKES = "takes 1 to 256 bytes of UTF-8 without control characters and without a blank at either end"

INVALID_SPECS: dict[str, tuple[dict[str, object], str]] = {
    "unknown key": ({"gpu": ["0"]}, "gpu: unknown key, did you mean gpus?"),
    "unknown engine": (
        {"engine": "vlm"},
        "engine: got 'vlm', takes vllm, sglang, llama-cpp, tensorrt-llm, tgi, lmdeploy, ollama or command",
    ),
    "no command": ({}, "command: got none, takes a program and its arguments"),
    "empty command": ({"command": []}, "command: got none, takes a program and its arguments"),
    "no model": ({"engine": "vllm"}, "model: required for engine vllm"),
    "text for a port": ({"port": "8100"}, "port: got '8100', takes an integer from 1 to 65535"),
    "port 0": ({"port": 0}, "port: got 0, takes 1 to 65535"),
    "port 70000": ({"port": 70000}, "port: got 70000, takes 1 to 65535"),
    "negative port": ({"port": -1}, "port: got -1, takes 1 to 65535"),
    "number for a text": (
        {"host": 7},
        "host: got 7, takes an IP address (without brackets and port) or a host name",
    ),
    "text for a list": ({"command": "sleep 1"}, "command: got a string, takes a list of strings"),
    "boolean for a number": ({"nodes": True}, "nodes: got true, takes an integer from 1 to 4096"),
    "rank beyond nodes": (TWO_NODES | {"rank": 2}, "rank: got 2, takes 0 to 1 (nodes is 2)"),
    "rank of one node": ({"rank": 1}, "rank: got 1, takes 0 (nodes is 1)"),
    "no rank": (TWO_NODES, "rank: required when nodes is 2"),
    "no leader": ({"nodes": 2, "rank": 0}, "leader_address: required when nodes is 2"),
    "health without a port": ({"health_path": "/health"}, "port: required when health_path is '/health'"),
    "time that is no number": (
        {"stop_timeout_s": Typed("d", ("nan",))},
        "stop_timeout_s: got nan, takes 0 to 1000000000 seconds",
    ),
    "negative time": ({"ready_timeout_s": -1.0}, "ready_timeout_s: got -1, takes 0 to 1000000000 seconds"),
    "sidecar without a name": ({"sidecars": [{"command": SLEEP}]}, "sidecars[0].name: required"),
    "sidecar called engine": (
        {"sidecars": [{"name": "engine", "command": SLEEP}]},
        "sidecars[0].name: got 'engine', takes 1 to 32 of a-z, 0-9 and '-', but not 'engine'",
    ),
    "arguments for a command": ({"args": ["-v"]}, "args: not for engine command"),
    "key of a later version": ({"on_unhealthy": "stop"}, "on_unhealthy: not supported yet by this version"),
    "relative directory": (
        {"working_directory": "here"},
        "working_directory: got 'here', takes an absolute path",
    ),
}
NO_COMMAND = {"no command", "no model", "empty command", "text for a list"}

UNAVAILABLE: dict[str, tuple[dict[str, object], str]] = {
    "missing executable": ({"command": ["/opt/none"]}, "executable /opt/none: No such file or directory"),
    "executable that is not in PATH": (
        {"command": ["no-such-program"]},
        f"executable no-such-program not found in {PATH}",
    ),
    "file that is not executable": (
        {"command": ["/etc/passwd"]},
        "executable /etc/passwd has no execute permission",
    ),
    "directory as executable": ({"command": ["/usr"]}, "executable /usr is no regular file"),
    "script without an interpreter": (
        {"command": ["/root/../opt/script"]},
        "executable /root/../opt/script: its interpreter /no/such is not there",
    ),
    "file of another kind": (
        {"command": ["/opt/text"]},
        "executable /opt/text is neither a program of this machine nor a script with #!",
    ),
    "executable that the user may not run": (
        {"command": ["/root/tool"]},
        "executable /root/tool may not be run by user llmgw",
    ),
    "missing directory": (
        {"command": SLEEP, "working_directory": "/var/lib/llmgw/none"},
        "working directory /var/lib/llmgw/none does not exist or is no directory",
    ),
    "sidecar that is missing": (
        {"command": SLEEP, "sidecars": [{"name": "head", "command": ["/opt/none"]}]},
        "executable /opt/none: No such file or directory",
    ),
}

FILES = """
    printf '#!/no/such\\n' > /opt/script; echo text > /opt/text; cp /usr/bin/true /root/tool
    chmod 755 /opt/script /opt/text /root/tool; chmod 700 /root
"""

BAD_IDS = {
    "blank at the end": ("a ", f"id: got 'a ', {ID_TAKES}"),
    "blank in front": (" a", f"id: got ' a', {ID_TAKES}"),
    "newline": ("a\nb", f"id: got 'a\\nb', {ID_TAKES}"),
    "empty": ("", f"id: got '', {ID_TAKES}"),
    "300 characters": ("a" * 300, f"id: got '{'a' * 60}'…, {ID_TAKES}"),
    "257 bytes": ("é" * 128 + "a", f"id: got '{'é' * 60}'…, {ID_TAKES}"),
    "escape": ("a\x1b[2J", f"id: got 'a\\x1b[2J', {ID_TAKES}"),
}
GOOD_IDS = {
    "slash": "org/model-7b@x:0",
    "space": "a model",
    "emoji": "🦙",
    "256 characters": "a" * 256,
    "64 emoji": "🦙" * 64,
    "per cent": "%n",
    "dots": "..",
    "dot": ".",
    "dash": "-x",
    "quote": 'it\'s "quoted" \\ $HOME',
    "scope": "a.scope",
    "prefix": "llama-2",
}


@pytest.fixture(scope="module")
def files(booted_node: Node) -> None:
    booted_node.machine.run(["sh", "-ec", FILES])


@pytest.fixture
def errors(node: Node) -> Iterator[Monitor]:
    """Error replies of the daemon, by the names that busctl does not show."""
    with monitor(node.machine, f"type='error',sender='{SERVICE}'") as errors:
        yield errors


def check_refusals(
    node: Node, errors: Monitor, name: str, asked: Mapping[str, tuple[str, Mapping[str, object], str]]
) -> None:
    """Each is refused by this error and in these words, and nothing is there afterwards."""
    told = {}
    for what, (shard, spec, _) in asked.items():
        with pytest.raises(Refused) as refusal:
            node.start(shard, **spec)
        told[what] = str(refusal.value)
    assert told == {what: f"{name}: {text}" for what, (_, _, text) in asked.items()}
    errors.wait("all names", lambda seen: len(seen) == len(asked))
    assert {(one.member, one.body[0]) for one in errors.seen} == {
        (f"org.llmgw.Node1.Error.{name}", text) for text in told.values()
    }
    assert (node.shards(), node.scopes(), node.call("ListOrphans")) == ({}, [], [])


def test_a_wrong_spec_is_refused_and_names_the_key(node: Node, errors: Monitor) -> None:
    asked = {
        what: ("a", spec if what in NO_COMMAND else {"command": SLEEP} | spec, text)
        for what, (spec, text) in INVALID_SPECS.items()
    }
    check_refusals(node, errors, "InvalidSpec", asked)


def test_a_program_or_directory_that_cannot_be_used_is_refused_and_named(
    node: Node, files: None, errors: Monitor
) -> None:
    asked = {what: ("a", spec, text) for what, (spec, text) in UNAVAILABLE.items()}
    check_refusals(node, errors, "EngineUnavailable", asked)


def test_an_id_that_cannot_be_one_is_refused(node: Node, errors: Monitor) -> None:
    asked = {what: (name, {"command": SLEEP}, text) for what, (name, text) in BAD_IDS.items()}
    check_refusals(node, errors, "InvalidSpec", asked)


def test_a_user_that_is_not_allowed_is_refused(node: Node) -> None:
    with pytest.raises(Refused) as refusal:
        node.start("a", command=SLEEP, user="root")
    assert re.match(r"^InvalidSpec: user: ", str(refusal.value)), refusal.value
    with pytest.raises(Refused) as refusal:
        node.start("a", command=SLEEP, user="nemo")
    assert re.match(r"^(InvalidSpec: user: |EngineUnavailable: user nemo )", str(refusal.value)), (
        refusal.value
    )


def test_a_spec_is_refused_where_its_type_is_not_a_dictionary(node: Node) -> None:
    with pytest.raises(Refused, match=r"StartShard takes 'sa\{sv\}', not 's'"):
        node.call("StartShard", "s", "a")


@pytest.mark.parametrize("id", GOOD_IDS.values(), ids=GOOD_IDS.keys())
def test_an_odd_id_is_a_shard_like_any_other(node: Node, id: str) -> None:
    path = node.start(id, command=engine("--say", "up"))
    ready = node.wait_state(id, "ready")
    node.machine.wait_for("it has spoken", lambda: node.tail(id) == ["up"])
    pids = node.processes(ready)
    assert (node.call("GetShard", "s", id), len(pids), len(ready["Unit"]) <= 200) == (path, 2, True)
    assert node.scopes() == [ready["Unit"]]
    state = node.call(
        "Get", "ss", "org.llmgw.Node1.Shard", "State", path=path, interface="org.freedesktop.DBus.Properties"
    )
    assert state == "ready"
    node.call("Stop", "a{sv}", "0", path=path, interface="org.llmgw.Node1.Shard")
    stopped = node.wait_state(id, "stopped")
    assert (stopped["Id"], stopped["Reason"], node.running(pids)) == (id, "stopped", [])


def test_odd_ids_live_side_by_side_and_are_adopted_each_as_itself(node: Node) -> None:
    for name in GOOD_IDS.values():
        node.start(name, command=SLEEP)
    before = {name: node.wait_state(name, "ready") for name in GOOD_IDS.values()}
    node.kill_daemon()
    after = node.shards()
    assert {name: shard["Pid"] for name, shard in after.items()} == {
        name: shard["Pid"] for name, shard in before.items()
    }
    assert len({shard["Unit"] for shard in after.values()}) == len(GOOD_IDS)


def test_a_plan_says_what_would_be_run_and_what_would_be_refused(node: Node, files: None) -> None:
    spec = serving(8100) | {"command": ["/opt/none", "a b"], "environment": {"A": "1"}}
    sidecar = {"name": "head", "command": SLEEP, "waits_for_leader": True}
    leader = {"leader_address": "10.0.0.1", "leader_port": 8200, "nodes": 2, "rank": 1}
    arguments = spelled("a", **spec, **leader, sidecars=[sidecar], working_directory="/")
    warnings = ["EngineUnavailable: executable /opt/none: No such file or directory"]
    common = {"environment": {"A": "1"}, "working_directory": "/", "warnings": warnings}
    assert node.call("PlanShard", *arguments) == [
        {"name": "head", "argv": SLEEP, "waits_for": ["10.0.0.1:8200"], **common},
        {"name": "engine", "argv": ["/opt/none", "a b"], "waits_for": [], **common},
    ]
    assert node.shards() == {}
