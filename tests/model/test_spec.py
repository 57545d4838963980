"""The spec: what is accepted, what is refused and in which words."""

import json
from collections.abc import Mapping
from dataclasses import fields, replace
from types import MappingProxyType
from typing import get_args, get_origin, get_type_hints

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from llmgwd.model.errors import InvalidSpec, LimitExceeded, Refusal
from llmgwd.model.spec import (
    KEYS,
    Defaults,
    ShardSpec,
    Sidecar,
    check_id,
    parse_spec,
    spec_values,
)
from tests.model.specs import ANYTHING, COMMAND, DEFAULTS, VLLM, other_defaults, valid_values

UNTIMED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # the machine may be busy

SERVES: Mapping[str, object] = {"engine": "vllm", "model": "m"}
RUNS: Mapping[str, object] = {"engine": "command", "command": ["/usr/bin/python3", "-m", "http.server"]}
LEADS: Mapping[str, object] = {"nodes": 2, "rank": 0, "leader_address": "10.0.0.1", "leader_port": 6379}

CONTRACT = {
    "engine": "s",
    "model": "s",
    "served_model_name": "s",
    "replica_id": "s",
    "nodes": "u",
    "rank": "u",
    "leader_address": "s",
    "leader_port": "u",
    "peers": "as",
    "executor": "s",
    "data_parallel_balancing": "s",
    "host": "s",
    "port": "u",
    "gpus": "as",
    "tensor_parallel": "u",
    "pipeline_parallel": "u",
    "data_parallel": "u",
    "args": "as",
    "environment": "a{ss}",
    "environment_files": "as",
    "executable": "s",
    "command": "as",
    "sidecars": "aa{sv}",
    "waits_for_leader": "b",
    "health_path": "s",
    "verify_listener": "b",
    "health_generate": "b",
    "on_unhealthy": "s",
    "user": "s",
    "group": "s",
    "working_directory": "s",
    "ready_timeout_s": "d",
    "ready_stall_s": "d",
    "stop_timeout_s": "d",
    "drain_timeout_s": "d",
    "rendezvous_timeout_s": "d",
    "memory_max": "t",
    "cpu_weight": "t",
    "tasks_max": "t",
    "allowed_cpus": "s",
    "allowed_memory_nodes": "s",
}


def serve(**more: object) -> ShardSpec:
    return parse_spec("a", {**SERVES, **more}, VLLM)


def run(**more: object) -> ShardSpec:
    return parse_spec("a", {**RUNS, **more}, COMMAND)


def refusal(values: Mapping[str, object], defaults: Defaults = VLLM) -> str:
    with pytest.raises(Refusal) as refused:
        parse_spec("a", values, defaults)
    return str(refused.value)


def test_the_keys_are_the_contracts_in_its_order() -> None:
    assert list(KEYS.items()) == list(CONTRACT.items())
    assert [field.name for field in fields(ShardSpec)] == list(CONTRACT)


def test_a_silent_spec_gets_the_defaults() -> None:
    assert serve() == ShardSpec(
        engine="vllm",
        model="m",
        served_model_name="m",
        replica_id="a",
        nodes=1,
        rank=0,
        leader_address="",
        leader_port=0,
        peers=(),
        executor="",
        data_parallel_balancing="internal",
        host="127.0.0.1",
        port=8000,
        gpus=None,
        tensor_parallel=1,
        pipeline_parallel=1,
        data_parallel=1,
        args=(),
        environment={},
        environment_files=(),
        executable="vllm",
        command=(),
        sidecars=(),
        waits_for_leader=False,
        health_path="/health",
        verify_listener=True,
        health_generate=False,
        on_unhealthy="report",
        user="llmgw",
        group="",
        working_directory="/var/lib/llmgw",
        ready_timeout_s=1800.0,
        ready_stall_s=0.0,
        stop_timeout_s=60.0,
        drain_timeout_s=0.0,
        rendezvous_timeout_s=300.0,
        memory_max=None,
        cpu_weight=None,
        tasks_max=None,
        allowed_cpus="",
        allowed_memory_nodes="",
    )


def test_a_command_has_neither_model_nor_port_nor_health_path() -> None:
    spec = run()
    assert (spec.model, spec.served_model_name, spec.port, spec.health_path) == ("", "", 0, "")
    assert spec.command == ("/usr/bin/python3", "-m", "http.server")


def test_sidecars_arrive_in_order() -> None:
    spec = run(
        sidecars=[
            {"name": "ray", "command": ["ray", "start"]},
            {"name": "two", "command": ["/bin/sleep", "9"], "waits_for_leader": True},
        ],
        leader_address="10.0.0.1",
        leader_port=6379,
    )
    assert spec.sidecars == (
        Sidecar(name="ray", command=("ray", "start"), waits_for_leader=False),
        Sidecar(name="two", command=("/bin/sleep", "9"), waits_for_leader=True),
    )


def test_no_gpu_named_and_no_gpu_at_all_are_two_things() -> None:
    assert (serve().gpus, serve(gpus=[]).gpus, serve(gpus=["0", "GPU-8f3e"]).gpus) == (
        None,
        (),
        ("0", "GPU-8f3e"),
    )


def test_an_empty_health_path_is_no_http_whatever_the_engine_has() -> None:
    assert serve(health_path="").health_path == ""


def test_an_empty_group_is_the_users_whatever_is_configured() -> None:
    configured = replace(VLLM, group="render")
    assert parse_spec("a", SERVES, configured).group == "render"
    assert parse_spec("a", {**SERVES, "group": ""}, configured).group == ""


def test_values_of_the_environment_arrive_as_they_are() -> None:
    values = {"PEM": "-----BEGIN\n\tx\r\n\x1b[0m=é\n", "EMPTY": "", "with space": "%n $HOME"}
    assert serve(environment=values).environment == values


def test_what_is_parsed_no_longer_changes_with_the_callers_values() -> None:
    environment = {"A": "1"}
    spec = serve(environment=environment)
    environment["A"] = "2"
    assert spec.environment == {"A": "1"}
    assert isinstance(spec.environment, MappingProxyType)


def test_the_environment_is_not_in_the_repr() -> None:
    assert "hf_secret" not in repr(serve(environment={"HF_TOKEN": "hf_secret"}))


@pytest.mark.parametrize(
    ("values", "text"),
    [
        # the keys themselves
        ({}, "engine: required"),
        ({**SERVES, "modle": "m"}, "modle: unknown key, did you mean model?"),
        ({**SERVES, "frobnicate": 1}, "frobnicate: unknown key"),
        ({**SERVES, "a\nb": 1}, r"'a\nb': unknown key"),
        ({"engine": "vllm"}, "model: required for engine vllm"),
        (
            {**SERVES, "engine": 3},
            "engine: got 3, takes a string without blanks that does not begin with '-'",
        ),
        # numbers
        ({**SERVES, "port": 70_000}, "port: got 70000, takes 1 to 65535"),
        ({**SERVES, "port": 0}, "port: got 0, takes 1 to 65535"),
        ({**SERVES, "port": "8000"}, "port: got '8000', takes an integer from 1 to 65535"),
        ({**SERVES, "port": True}, "port: got true, takes an integer from 1 to 65535"),
        ({**SERVES, "port": 8000.0}, "port: got 8000.0, takes an integer from 1 to 65535"),
        ({**SERVES, "port": None}, "port: got nothing, takes an integer from 1 to 65535"),
        ({**SERVES, "nodes": 0}, "nodes: got 0, takes 1 to 4096"),
        ({**SERVES, "nodes": 2}, "rank: required when nodes is 2"),
        ({**SERVES, **LEADS, "rank": 2}, "rank: got 2, takes 0 to 1 (nodes is 2)"),
        ({**SERVES, **LEADS, "rank": -1}, "rank: got -1, takes 0 to 1 (nodes is 2)"),
        ({**SERVES, "rank": 1}, "rank: got 1, takes 0 (nodes is 1)"),
        ({**SERVES, "rank": "0"}, "rank: got '0', takes an integer"),
        ({**SERVES, "tensor_parallel": 0}, "tensor_parallel: got 0, takes 1 to 65536"),
        ({**SERVES, "memory_max": 0}, "memory_max: got 0, takes 1 to 9223372036854775807"),
        (
            {**SERVES, "memory_max": 10**5000},
            "memory_max: got a number beyond 64 bits, takes 1 to 9223372036854775807",
        ),
        ({**SERVES, "cpu_weight": 10_001}, "cpu_weight: got 10001, takes 1 to 10000"),
        # times
        ({**SERVES, "ready_timeout_s": -1}, "ready_timeout_s: got -1, takes 0 to 1000000000 seconds"),
        ({**SERVES, "ready_timeout_s": -1.0}, "ready_timeout_s: got -1, takes 0 to 1000000000 seconds"),
        ({**SERVES, "ready_timeout_s": -0.5}, "ready_timeout_s: got -0.5, takes 0 to 1000000000 seconds"),
        (
            {**SERVES, "stop_timeout_s": float("nan")},
            "stop_timeout_s: got nan, takes 0 to 1000000000 seconds",
        ),
        (
            {**SERVES, "stop_timeout_s": float("inf")},
            "stop_timeout_s: got inf, takes 0 to 1000000000 seconds",
        ),
        ({**SERVES, "drain_timeout_s": True}, "drain_timeout_s: got true, takes 0 to 1000000000 seconds"),
        ({**SERVES, "drain_timeout_s": "5"}, "drain_timeout_s: got '5', takes 0 to 1000000000 seconds"),
        # texts
        (
            {**SERVES, "model": ""},
            "model: got '', takes a string that is not empty and without control characters",
        ),
        (
            {**SERVES, "model": "a\nb"},
            r"model: got 'a\nb', takes a string that is not empty and without control characters",
        ),
        ({**SERVES, "model": "\ud800"}, "model: got a string with a lone surrogate, takes UTF-8"),
        ({**SERVES, "working_directory": "srv"}, "working_directory: got 'srv', takes an absolute path"),
        (
            {**SERVES, "executable": "bin/vllm"},
            "executable: got 'bin/vllm', takes an absolute path or a bare name",
        ),
        ({**SERVES, "environment_files": ["x"]}, "environment_files[0]: got 'x', takes an absolute path"),
        (
            {**SERVES, "user": "-x"},
            "user: got '-x', takes a string without blanks that does not begin with '-'",
        ),
        (
            {**SERVES, "host": "[::]"},
            "host: got '[::]', takes an IP address (without brackets and port) or a host name",
        ),
        (
            {**SERVES, "health_path": "health"},
            "health_path: got 'health', takes a path that begins with '/', or nothing",
        ),
        ({**SERVES, "verify_listener": 1}, "verify_listener: got 1, takes true or false"),
        ({**SERVES, "on_unhealthy": "restart"}, "on_unhealthy: got 'restart', takes report or stop"),
        (
            {**SERVES, "allowed_cpus": "3-1"},
            "allowed_cpus: got '3-1', takes a list of numbers up to 8191 such as 0-15,32",
        ),
        (
            {**SERVES, "allowed_cpus": "0-15, 32"},
            "allowed_cpus: got '0-15, 32', takes a list of numbers up to 8191 such as 0-15,32",
        ),
        (
            {**SERVES, "allowed_memory_nodes": "1024"},
            "allowed_memory_nodes: got '1024', takes a list of numbers up to 1023 such as 0-15,32",
        ),
        # lists
        ({**SERVES, "args": "--x"}, "args: got a string, takes a list of strings"),
        ({**SERVES, "args": ["a", 1]}, "args[1]: got a number, takes a string"),
        ({**SERVES, "args": ["a\0"]}, "args[0]: got a string with a NUL, takes one without"),
        ({**SERVES, "gpus": [0]}, "gpus[0]: got 0, takes the index or the UUID of a GPU, as a string"),
        (
            {**SERVES, "gpus": ["0,1"]},
            "gpus[0]: got '0,1', takes the index or the UUID of a GPU, as a string",
        ),
        ({**SERVES, "gpus": ["0", "1", "0"]}, "gpus[2]: got '0', takes each once"),
        # environment
        ({**SERVES, "environment": ["A=1"]}, "environment: got a list, takes a table of strings"),
        ({**SERVES, "environment": {"A": 1}}, "environment[A]: got a number, takes a string"),
        (
            {**SERVES, "environment": {"A": "s\0"}},
            "environment[A]: got a string with a NUL, takes one without",
        ),
        *(
            (
                {**SERVES, "environment": {name: "s"}},
                "environment: got a name that is empty or has a '=' or a newline in it, takes none such",
            )
            for name in ("", "A=B", "A\nB")
        ),
        ({**SERVES, "environment": {"A\0": "s"}}, "environment: got a string with a NUL, takes one without"),
        # what belongs together
        ({**SERVES, "nodes": 2, "rank": 1}, "leader_address: required when nodes is 2"),
        ({**SERVES, **LEADS, "leader_port": 0}, "leader_port: got 0, takes 1 to 65535"),
        ({**SERVES, "command": ["x"]}, "command: only for engine command (engine is vllm)"),
        (
            {**SERVES, "sidecars": [{"name": "x", "command": ["x"]}]},
            "sidecars: only for engine command (engine is vllm)",
        ),
        ({**SERVES, "waits_for_leader": True}, "waits_for_leader: only for engine command (engine is vllm)"),
        # later
        ({**SERVES, "ready_stall_s": 1}, "ready_stall_s: not supported yet by this version"),
        ({**SERVES, "health_generate": True}, "health_generate: not supported yet by this version"),
        ({**SERVES, "on_unhealthy": "stop"}, "on_unhealthy: not supported yet by this version"),
        ({**SERVES, "executor": "slurm"}, "executor: got 'slurm', takes mp or ray"),
        (
            {**SERVES, "data_parallel_balancing": "none"},
            "data_parallel_balancing: got 'none', takes internal, hybrid or external",
        ),
    ],
)
def test_a_refusal_names_the_key_what_it_got_and_what_it_takes(
    values: Mapping[str, object], text: str
) -> None:
    assert refusal(values) == f"InvalidSpec: {text}"


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"command": []}, "command: got none, takes a program and its arguments"),
        ({"command": ["./run"]}, "command[0]: got './run', takes an absolute path or a bare name"),
        (
            {"command": [""]},
            "command[0]: got '', takes a string that is not empty and without control characters",
        ),
        ({"args": ["-v"]}, "args: not for engine command"),
        ({"health_path": "/health"}, "port: required when health_path is '/health'"),
        ({"waits_for_leader": True}, "leader_address: required when a process waits for the leader"),
        (
            {"waits_for_leader": True, "leader_address": "10.0.0.1"},
            "leader_port: required when a process waits for the leader",
        ),
        (
            {"sidecars": [{"name": "x", "command": ["x"], "waits_for_leader": True}]},
            "leader_address: required when a process waits for the leader",
        ),
        ({"sidecars": ["x"]}, "sidecars[0]: got 'x', takes a table with name, command and waits_for_leader"),
        ({"sidecars": [{"command": ["x"]}]}, "sidecars[0].name: required"),
        ({"sidecars": [{"name": "x"}]}, "sidecars[0].command: required"),
        (
            {"sidecars": [{"name": "x", "command": []}]},
            "sidecars[0].command: got an empty list, takes a program and its arguments",
        ),
        (
            {"sidecars": [{"name": "x", "comand": ["x"]}]},
            "sidecars[0].comand: unknown key, did you mean command?",
        ),
        *(
            (
                {"sidecars": [{"name": name, "command": ["x"]}]},
                f"sidecars[0].name: got {name!r}, takes 1 to 32 of a-z, 0-9 and '-', but not 'engine'",
            )
            for name in ("engine", "", "Ray", "a" * 33, "a\n")
        ),
        (
            {"sidecars": [{"name": "x", "command": ["x"]}, {"name": "x", "command": ["y"]}]},
            "sidecars[1].name: got 'x', takes each once",
        ),
    ],
)
def test_a_command_is_refused_in_its_own_words(more: Mapping[str, object], text: str) -> None:
    assert refusal({**RUNS, **more}, COMMAND) == f"InvalidSpec: {text}"


@pytest.mark.parametrize("key", ["user", "group"])
def test_a_daemon_of_a_user_runs_engines_as_nobody_else(key: str) -> None:
    own = replace(VLLM, user="", takes_user=False)
    assert parse_spec("a", SERVES, own).user == ""
    assert refusal({**SERVES, key: "bob"}, own) == (
        f"InvalidSpec: {key}: got 'bob', takes none: engines run as the daemon's own user here"
    )


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"args": ["x" * 131_072]}, "args[0]: 131072 bytes, at most 131071"),
        ({"environment": {"A": "x" * 131_070}}, "environment[A]: 131072 bytes, at most 131071"),
        ({"args": ["x"] * 4_097}, "args: 4097 entries, at most 4096"),
        ({"environment": {f"A{n}": "" for n in range(4_097)}}, "environment: 4097 entries, at most 4096"),
        ({"args": ["x" * 131_071] * 9}, "args: 1179639 bytes, at most 1048576"),
        ({"model": "é" * 2_048}, "model: 4096 bytes, at most 4095"),
    ],
)
def test_sizes_are_bounded_and_the_limit_is_said(values: Mapping[str, object], text: str) -> None:
    assert refusal({**SERVES, **values}) == f"LimitExceeded: {text}"


def test_what_the_kernel_takes_is_taken() -> None:
    spec = serve(args=["x" * 131_071], environment={"A": "x" * 131_069})
    assert (len(spec.args[0]), len(spec.environment["A"])) == (131_071, 131_069)


@pytest.mark.parametrize("id", ["a", "a/b", "🦙", "%n", "..", "-x", "a b", "é" * 128, "x" * 256])
def test_any_readable_id_works(id: str) -> None:
    check_id(id)


@pytest.mark.parametrize(
    "id", ["", " a", "a ", "a\t", "a\nb", "a\0", "\x85", "\u3000a", "x" * 257, "é" * 129, "\udc80"]
)
def test_an_id_that_is_empty_long_or_invisible_is_refused(id: str) -> None:
    with pytest.raises(InvalidSpec, match=r"^InvalidSpec: id: got "):
        check_id(id)
    with pytest.raises(InvalidSpec, match=r"^InvalidSpec: id: got "):
        parse_spec(id, SERVES, VLLM)


def test_what_was_not_given_is_left_out_of_the_values() -> None:
    assert spec_values(run(sidecars=[{"name": "x", "command": ["x"]}])) == {
        "engine": "command",
        "replica_id": "a",
        "nodes": 1,
        "rank": 0,
        "host": "127.0.0.1",
        "tensor_parallel": 1,
        "pipeline_parallel": 1,
        "data_parallel": 1,
        "command": ["/usr/bin/python3", "-m", "http.server"],
        "sidecars": [{"name": "x", "command": ["x"], "waits_for_leader": False}],
        "health_path": "",
        "verify_listener": True,
        "health_generate": False,
        "on_unhealthy": "report",
        "user": "llmgw",
        "group": "",
        "working_directory": "/var/lib/llmgw",
        "ready_timeout_s": 1800.0,
        "ready_stall_s": 0.0,
        "stop_timeout_s": 60.0,
        "drain_timeout_s": 0.0,
        "rendezvous_timeout_s": 300.0,
    }


@UNTIMED
@given(values=valid_values(), data=st.data())
def test_a_spec_comes_back_from_its_values_whatever_is_configured_by_then(
    values: dict[str, object], data: st.DataObject
) -> None:
    defaults = DEFAULTS[str(values["engine"])]
    spec = parse_spec("a", values, defaults)
    again = json.loads(json.dumps(spec_values(spec)))
    assert parse_spec("a", again, data.draw(other_defaults(defaults))) == spec


@UNTIMED
@given(values=valid_values())
def test_every_field_has_the_type_that_it_declares(values: dict[str, object]) -> None:
    spec = parse_spec("a", values, DEFAULTS[str(values["engine"])])
    wrong = {
        name: getattr(spec, name)
        for name, hint in get_type_hints(ShardSpec).items()
        if not fits(getattr(spec, name), hint)
    }
    assert wrong == {}


@UNTIMED
@given(values=valid_values(), key=st.sampled_from(sorted(KEYS)), value=ANYTHING)
def test_any_value_gives_a_spec_or_a_refusal_that_names_the_key(
    values: dict[str, object], key: str, value: object
) -> None:
    engine = str(values["engine"])
    try:
        parse_spec("a", {**values, key: value}, DEFAULTS[engine])
    except (InvalidSpec, LimitExceeded) as refused:
        # a valid value can make another key wrong: more nodes than before, say
        named = refused.text.split(":")[0].split("[")[0].split(".")[0]
        assert named == key or (key, named) in CONSEQUENCES
        str(refused).encode()


CONSEQUENCES = {
    ("nodes", "rank"),
    ("nodes", "leader_address"),
    ("waits_for_leader", "leader_address"),
    ("sidecars", "leader_address"),
    ("health_path", "port"),
    ("engine", "command"),
    ("engine", "args"),
}


@UNTIMED
@given(values=st.dictionaries(st.one_of(st.text(), st.sampled_from(sorted(KEYS))), ANYTHING))
def test_any_table_gives_a_spec_or_a_refusal(values: dict[str, object]) -> None:
    try:
        parse_spec("a", values, VLLM)
    except (InvalidSpec, LimitExceeded) as refused:
        str(refused).encode()


def fits(value: object, hint: object) -> bool:
    if get_origin(hint) is tuple:
        return isinstance(value, tuple) and all(fits(entry, get_args(hint)[0]) for entry in value)
    if get_origin(hint) is Mapping:
        return isinstance(value, Mapping) and all(type(entry) is str for entry in [*value, *value.values()])
    if get_args(hint):
        return any(fits(value, choice) for choice in get_args(hint))
    return type(value) is hint
