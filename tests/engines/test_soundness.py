"""A plan that cannot be run is told by its part; whoever wrote it may be from another package."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from llmgwd.engines.plan import Http, Plan, Process
from llmgwd.engines.soundness import check_sound
from llmgwd.model.errors import InvalidSpec, LimitExceeded
from tests.engines.golden import GOLDEN

HEAD = Process("ray-head", ("/opt/ray", "start"), {}, "/w")
ENGINE = Process(
    name="engine",
    argv=("textgen-server", "", "--x"),
    environment={"A": "1", "B": ""},
    working_directory="/w",
    waits_for=("10.0.0.1:29501", "[fd00::1]:1", "leader.example:65535"),
    or_named=("text-gen", "/opt/textgen-server"),
)
HTTP = Http("http://127.0.0.1:8500", "/health", "m")
NAME = "name: got {}, takes 1 to 32 of a-z, 0-9 and '-', but not 'engine'"
GOOD = Plan((HEAD, ENGINE), (8500, 1, 65_535), HTTP, ("looks odd",))


@pytest.mark.parametrize(
    "plan",
    [
        GOOD,
        Plan((ENGINE,), (), None),
        replace(GOOD, http=Http("https://[::1]:1", "", "", timeout_s=9, is_endpoint=False)),
        replace(GOOD, http=Http("http://node", "/", "a name of two words")),
    ],
)
def test_a_plan_that_can_be_run_is_given_back_as_it_is(plan: Plan) -> None:
    assert check_sound(plan) is plan


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        (None, "got nothing, takes a Plan"),
        ({"processes": []}, "got a table, takes a Plan"),
        (Plan, "got type, takes a Plan"),
    ],
)
def test_what_is_no_plan_at_all_is_refused(plan: object, said: str) -> None:
    assert refusal(plan) == f"InvalidSpec: {said}"


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"processes": None}, "processes: got nothing, takes a list of Process"),
        ({"processes": ENGINE}, "processes: got Process, takes a list of Process"),
        ({"processes": ()}, "processes: the last one has to be named engine"),
        ({"processes": (HEAD,)}, "processes: the last one has to be named engine"),
        ({"processes": (ENGINE, HEAD)}, "processes: the last one has to be named engine"),
        ({"processes": ("x", ENGINE)}, "processes[0]: got a string, takes a Process"),
        ({"processes": (HEAD, HEAD, ENGINE)}, "processes[1].name: got 'ray-head', takes each once"),
        ({"processes": (ENGINE, ENGINE)}, "processes[1].name: got 'engine', takes each once"),
        ({"ports": None}, "ports: got nothing, takes a list of ports"),
        ({"ports": 8500}, "ports: got a number, takes a list of ports"),
        ({"ports": ("8500",)}, "ports[0]: got '8500', takes an integer from 1 to 65535"),
        ({"ports": (8500, 0)}, "ports[1]: got 0, takes 1 to 65535"),
        ({"ports": (65_536,)}, "ports[0]: got 65536, takes 1 to 65535"),
        ({"ports": (True,)}, "ports[0]: got true, takes an integer from 1 to 65535"),
        ({"warnings": None}, "warnings: got nothing, takes a list of strings"),
        ({"warnings": "odd"}, "warnings: got a string, takes a list of strings"),
        ({"warnings": (1,)}, "warnings[0]: got a number, takes a string"),
        ({"warnings": ("a\0",)}, "warnings[0]: got a string with a NUL, takes one without"),
        ({"http": "http://x"}, "http: got a string, takes an Http"),
        ({"http": {"base_url": "x"}}, "http: got a table, takes an Http"),
    ],
)
def test_a_part_of_a_plan_that_cannot_be_run_is_named(values: Mapping[str, object], said: str) -> None:
    assert refusal(changed(GOOD, values)) == f"InvalidSpec: {said}"


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"name": "../../x"}, NAME.format("'../../x'")),
        ({"name": ""}, NAME.format("''")),
        ({"name": None}, NAME.format("nothing")),
        ({"argv": ()}, "argv: got none, takes a program and its arguments"),
        ({"argv": None}, "argv: got nothing, takes a list of strings"),
        ({"argv": "/bin/true"}, "argv: got a string, takes a list of strings"),
        ({"argv": ("x", 8500)}, "argv[1]: got a number, takes a string"),
        ({"argv": ("x", "a\0b")}, "argv[1]: got a string with a NUL, takes one without"),
        ({"argv": ("bin/x",)}, "argv[0]: got 'bin/x', takes an absolute path or a bare name"),
        ({"argv": ("",)}, "argv[0]: got '', takes a string that is not empty and without control characters"),
        ({"environment": None}, "environment: got nothing, takes a table of strings"),
        ({"environment": {"A": 1}}, "environment[A]: got a number, takes a string"),
        ({"environment": {1: "A"}}, "environment: got a number, takes a string"),
        (
            {"environment": {"A=B": "1"}},
            "environment: got a name that is empty or has a '=' or a newline in it, takes none such",
        ),
        ({"environment": {"A": "a\0"}}, "environment[A]: got a string with a NUL, takes one without"),
        ({"working_directory": "w"}, "working_directory: got 'w', takes an absolute path"),
        (
            {"working_directory": ""},
            "working_directory: got '', takes a string that is not empty and without control characters",
        ),
        ({"waits_for": "10.0.0.1:9"}, "waits_for: got a string, takes a list of strings"),
        ({"waits_for": ("10.0.0.1",)}, "waits_for[0]: got '10.0.0.1', takes HOST:PORT"),
        ({"waits_for": ("a:1", ":1")}, "waits_for[1]: got ':1', takes HOST:PORT"),
        ({"waits_for": ("a:",)}, "waits_for[0]: got 'a:', takes HOST:PORT"),
        ({"waits_for": ("a:b",)}, "waits_for[0]: got 'a:b', takes HOST:PORT"),
        ({"waits_for": ("a:0",)}, "waits_for[0]: got 'a:0', takes HOST:PORT"),
        ({"waits_for": ("a:65536",)}, "waits_for[0]: got 'a:65536', takes HOST:PORT"),
        ({"waits_for": ("a:²",)}, "waits_for[0]: got 'a:²', takes HOST:PORT"),
        ({"waits_for": (1,)}, "waits_for[0]: got a number, takes a string"),
        ({"or_named": "x"}, "or_named: got a string, takes a list of strings"),
        ({"or_named": ("./x",)}, "or_named[0]: got './x', takes an absolute path or a bare name"),
    ],
)
def test_a_part_of_a_process_that_cannot_be_run_is_named(values: Mapping[str, object], said: str) -> None:
    plan = changed(GOOD, {"processes": (changed(HEAD, values), ENGINE)})
    assert refusal(plan) == f"InvalidSpec: processes[0].{said}"


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (
            {"base_url": None},
            "base_url: got nothing, takes a string without blanks that does not begin with '-'",
        ),
        ({"base_url": "127.0.0.1:8500"}, "base_url: got '127.0.0.1:8500', takes a URL of http or https"),
        ({"base_url": "ftp://x"}, "base_url: got 'ftp://x', takes a URL of http or https"),
        ({"base_url": "http://"}, "base_url: got 'http://', takes a URL of http or https"),
        ({"base_url": "http://[x]:1"}, "base_url: got 'http://[x]:1', takes a URL of http or https"),
        ({"base_url": "http://a:0"}, "base_url: got 'http://a:0', takes a URL of http or https"),
        ({"base_url": "http://a:65536"}, "base_url: got 'http://a:65536', takes a URL of http or https"),
        (
            {"health_path": "health"},
            "health_path: got 'health', takes a path that begins with '/', or nothing",
        ),
        ({"served_model": None}, "served_model: got nothing, takes a string"),
        ({"timeout_s": -1}, "timeout_s: got -1, takes 0 to 1000000000 seconds"),
        ({"timeout_s": "2"}, "timeout_s: got '2', takes 0 to 1000000000 seconds"),
        ({"is_endpoint": 1}, "is_endpoint: got 1, takes true or false"),
    ],
)
def test_a_part_of_http_that_cannot_be_asked_is_named(values: Mapping[str, object], said: str) -> None:
    assert refusal(changed(GOOD, {"http": changed(HTTP, values)})) == f"InvalidSpec: http.{said}"


def test_what_execve_does_not_take_is_refused() -> None:
    long = replace(ENGINE, argv=("x", "a" * 131_072))
    assert refusal(replace(GOOD, processes=(long,))) == (
        "LimitExceeded: processes[0].argv[1]: 131072 bytes, at most 131071"
    )
    many = replace(GOOD, warnings=("a",) * 4_097)
    assert refusal(many) == "LimitExceeded: warnings: 4097 entries, at most 4096"


def test_it_may_have_all_that_spec_and_configuration_may_have_together() -> None:
    many = replace(
        ENGINE,
        argv=("x",) + ("a" * 131_071,) * 16 + ("a",) * 8_192,
        environment={f"A{number}": "a" * 1_000 for number in range(8_192)},
    )
    plan = replace(GOOD, processes=(many,))
    assert check_sound(plan) is plan


@pytest.mark.parametrize("engine", GOLDEN)
def test_what_each_engine_here_plans_can_be_run(engine: str) -> None:
    for case in GOLDEN[engine].values():
        assert check_sound(case.plan) is case.plan


def refusal(plan: object) -> str:
    with pytest.raises((InvalidSpec, LimitExceeded)) as refused:
        check_sound(plan)
    return str(refused.value)


def changed(thing: object, values: Mapping[str, object]) -> object:
    """As another's code would make it, which no type checker has seen."""
    make: Callable[..., object] = replace
    return make(thing, **values)
