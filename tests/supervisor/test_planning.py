"""From a caller's values to a spec and its plan, and what a node has to give away only once."""

from collections.abc import Callable
from dataclasses import replace
from typing import cast

import pytest

from llmgwd.config import AgentConfig, Config, EngineConfig
from llmgwd.engines.engine import Traits
from llmgwd.engines.facts import Gpu, NodeFacts
from llmgwd.engines.plan import Plan, Process
from llmgwd.engines.registry import Engines
from llmgwd.model.errors import EngineUnavailable, InvalidSpec, ResourceBusy, SpecConflict
from llmgwd.model.spec import ShardSpec
from llmgwd.supervisor.planning import Planner, check_same
from tests.supervisor.test_record import simple

FACTS = NodeFacts(
    management_address="10.0.0.1",
    management_interface="eth0",
    gpus=(Gpu(0, "GPU-aa", "A", "nvidia", 1), Gpu(1, "GPU-bb", "A", "nvidia", 1)),
)
COMMAND = {"engine": "command", "command": ["/bin/true"]}
VLLM = {"engine": "vllm", "model": "m"}


def planner(*, facts: NodeFacts = FACTS, user_mode: bool = False, **engines: EngineConfig) -> Planner:
    if user_mode:
        engines = {name: replace(engine, user="") for name, engine in engines.items()}
    agent = AgentConfig(stop_timeout_s=7, rendezvous_timeout_s=8)
    return Planner(Config(agent=agent, engines=engines), Engines(), facts, user_mode)


def planned(**values: object) -> tuple[Plan, ShardSpec]:
    spec, plan = planner(command=EngineConfig()).plan("a", COMMAND | values)
    return plan, spec


def test_what_a_spec_leaves_open_comes_from_engine_and_configuration() -> None:
    engine = EngineConfig(
        executable="/opt/vllm", args=("--x",), environment={"A": "1"}, user="u", group="g",
        working_directory="/w",
    )  # fmt: skip
    spec, plan = planner(vllm=engine).plan("a", VLLM)
    assert (spec.executable, spec.user, spec.group, spec.working_directory) == ("/opt/vllm", "u", "g", "/w")
    assert (spec.port, spec.health_path, spec.stop_timeout_s, spec.rendezvous_timeout_s) == (
        8000, "/health", 7, 8,
    )  # fmt: skip
    (process,) = plan.processes
    assert (process.argv[0], process.argv[-1], process.environment["A"]) == ("/opt/vllm", "--x", "1")


def test_an_engine_without_an_executable_of_its_own_takes_the_usual_one() -> None:
    spec, _ = planner(vllm=EngineConfig()).plan("a", VLLM)
    assert spec.executable == "vllm"


def test_what_the_spec_says_wins() -> None:
    spec, _ = planner(vllm=EngineConfig(user="u")).plan(
        "a", VLLM | {"user": "v", "port": 1, "stop_timeout_s": 2}
    )
    assert (spec.user, spec.port, spec.stop_timeout_s) == ("v", 1, 2)


@pytest.mark.parametrize(
    ("id", "values", "key"),
    [
        ("", COMMAND, "id"),
        ("a\n", COMMAND, "id"),
        ("a", {}, "engine"),
        ("a", {"engine": "nonsense"}, "engine"),
        ("a", {"engine": "tgi"}, "model"),
        ("a", COMMAND | {"colour": "blue"}, "colour"),
        ("a", COMMAND | {"port": "x"}, "port"),
    ],
)
def test_what_is_wrong_is_refused_by_name(id: str, values: dict[str, object], key: str) -> None:
    with pytest.raises(InvalidSpec, match=f"^InvalidSpec: {key}: "):
        planner(command=EngineConfig()).plan(id, values)


def test_an_engine_that_is_not_enabled_is_refused() -> None:
    with pytest.raises(InvalidSpec) as refusal:
        planner().plan("a", COMMAND)
    assert refusal.value.text == "engine: command is not enabled in this node's configuration"


def test_in_user_mode_no_spec_names_a_user() -> None:
    mine = planner(user_mode=True, command=EngineConfig())
    assert mine.plan("a", COMMAND)[0].user == ""
    with pytest.raises(InvalidSpec, match=r"^InvalidSpec: user: got 'root', takes none"):
        mine.plan("a", COMMAND | {"user": "root"})


@pytest.mark.parametrize(
    ("held", "wanted", "text"),
    [
        ({"port": 8100}, {"port": 8100}, "port 8100 is claimed by shard b"),
        ({"gpus": ["0", "1"]}, {"gpus": ["1"]}, "GPU 1 is claimed by shard b"),
        ({"gpus": ["1"]}, {"gpus": ["GPU-bb"]}, "GPU GPU-bb is claimed by shard b"),
        ({"gpus": ["GPU-aa"]}, {"gpus": ["0"]}, "GPU 0 is claimed by shard b"),
        ({"gpus": ["GPU-b"]}, {"gpus": ["1"]}, "GPU 1 is claimed by shard b"),
        ({"gpus": ["7"]}, {"gpus": ["7"]}, "GPU 7 is claimed by shard b"),
    ],
)
def test_a_port_and_a_gpu_are_claimed_once(
    held: dict[str, object], wanted: dict[str, object], text: str
) -> None:
    plan, spec = planned(**held)
    other = replace(simple(), id="b", spec=spec, plan=plan)
    with pytest.raises(ResourceBusy) as refusal:
        planner().check_claims(*planned(**wanted), [other])
    assert refusal.value.text == text


@pytest.mark.parametrize("held", [{"port": 8100}, {"gpus": ["0"]}, {"gpus": []}, {}])
@pytest.mark.parametrize("wanted", [{"port": 8101}, {"gpus": ["1"]}, {"gpus": []}, {}])
def test_different_claims_live_side_by_side(held: dict[str, object], wanted: dict[str, object]) -> None:
    plan, spec = planned(**held)
    planner().check_claims(*planned(**wanted), [replace(simple(), id="b", spec=spec, plan=plan)])


@pytest.mark.parametrize(
    ("running", "asked", "text"),
    [
        ({"port": 8001}, {"port": 8002}, "shard a runs with port 8001, asked for 8002"),
        ({}, {"gpus": ["0", "1"]}, "shard a runs with gpus none, asked for [0, 1]"),
        ({"gpus": []}, {}, "shard a runs with gpus [], asked for none"),
        ({"model": "m"}, {"model": "n"}, "shard a runs with model m, asked for n"),
        (
            {"environment": {"A": "secret", "B": "1", "C": "2"}},
            {"environment": {"A": "other", "C": "2", "D": "3"}},
            "shard a runs with another environment: A, B, D differ",
        ),
    ],
)
def test_another_spec_is_a_conflict_that_names_the_first_difference(
    running: dict[str, object], asked: dict[str, object], text: str
) -> None:
    with pytest.raises(SpecConflict) as refusal:
        check_same("a", planned(**running)[1], planned(**asked)[1])
    assert refusal.value.text == text


def test_the_same_spec_in_other_words_is_no_conflict() -> None:
    check_same("a", planned(nodes=1, rank=0, replica_id="a")[1], planned()[1])


LOOPBACK = replace(FACTS, management_address="127.0.0.1")
NOWHERE = replace(FACTS, management_address="")
PAIR = {"nodes": 2, "rank": 0, "leader_address": "10.0.0.1", "leader_port": 29501}


@pytest.mark.parametrize(("facts", "has"), [(LOOPBACK, "has 127.0.0.1"), (NOWHERE, "has none")])
def test_a_node_that_others_cannot_reach_is_no_part_of_a_replica_over_nodes(
    facts: NodeFacts, has: str
) -> None:
    mine = planner(facts=facts)
    spec, _ = mine.plan("a", VLLM | PAIR | {"tensor_parallel": 2})
    with pytest.raises(InvalidSpec) as refusal:
        mine.check_node(spec)
    assert refusal.value.text == (
        "nodes: got 2, which needs an address by which the other nodes reach this one, "
        f"and it {has}: set management_address in [agent] of its configuration"
    )


@pytest.mark.parametrize("facts", [LOOPBACK, NOWHERE])
def test_what_is_alone_needs_no_address_and_of_a_command_nothing_is_known(facts: NodeFacts) -> None:
    mine = planner(facts=facts, command=EngineConfig())
    for values in (VLLM, COMMAND, COMMAND | PAIR):
        mine.check_node(mine.plan("a", values)[0])


@pytest.mark.parametrize(
    ("gpus", "again", "first"),
    [
        (["0", "GPU-aa"], "GPU-aa", "0"),
        (["GPU-aa", "1", "0"], "0", "GPU-aa"),
        (["GPU-b", "GPU-bb"], "GPU-bb", "GPU-b"),
        (["1", "GPU-aa", "GPU-b"], "GPU-b", "1"),
    ],
)
def test_a_gpu_is_not_two_for_having_two_names(gpus: list[str], again: str, first: str) -> None:
    mine = planner()
    with pytest.raises(InvalidSpec) as refusal:
        mine.check_node(mine_spec(mine, gpus))
    assert refusal.value.text == f"gpus: got {again!r}, takes each once: on this node that is {first}"


@pytest.mark.parametrize(
    "gpus", [["0", "1"], ["GPU-aa", "1"], ["7", "8"], ["GPU-", "GPU-aa"], ["GPU-cc"], []]
)
def test_gpus_that_are_different_or_not_known_are_each_their_own(gpus: list[str]) -> None:
    mine = planner()
    mine.check_node(mine_spec(mine, gpus))


def test_gpus_without_uuids_are_known_by_their_indices() -> None:
    mine = planner(facts=replace(FACTS, gpus=(Gpu(0, "", "A", "amd", 1), Gpu(1, "", "A", "amd", 1))))
    mine.check_node(mine_spec(mine, ["0", "1"]))


def mine_spec(mine: Planner, gpus: list[str]) -> ShardSpec:
    return mine.plan("a", VLLM | {"gpus": gpus})[0]


class Foreign:
    """An engine of another package, whose plan is whatever it does. `meets`: its ranks, by address."""

    name = "textgen"

    def __init__(self, plans: Callable[[], object], *, meets: bool = True) -> None:
        self.traits = Traits(executable="x", port=8500, meets_by_address=meets)
        self._plans = plans

    def plan(self, *_: object) -> Plan:
        return cast(Plan, self._plans())


def foreign(plans: Callable[[], object], *, meets: bool = True, facts: NodeFacts = FACTS) -> Planner:
    config = Config(engines={"textgen": EngineConfig()})
    return Planner(config, Engines([Foreign(plans, meets=meets)]), facts)


TEXTGEN = {"engine": "textgen", "model": "m"}
SOUND = Plan((Process("engine", ("x",), {}, "/"),), (8500,), None)


def raiser(error: BaseException) -> Callable[[], object]:
    def plans() -> object:
        raise error

    return plans


def test_an_engine_of_another_package_plans_as_any_other_does() -> None:
    assert foreign(lambda: SOUND).plan("a", TEXTGEN)[1] is SOUND


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (ValueError("no such model"), "ValueError: no such model"),
        (ZeroDivisionError(), "ZeroDivisionError"),
        (SystemExit(3), "SystemExit: 3"),
    ],
)
def test_an_engine_that_makes_no_plan_is_named_and_its_trace_is_in_the_journal(
    error: BaseException, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(EngineUnavailable) as refusal:
        foreign(raiser(error)).plan("a", TEXTGEN)
    assert (refusal.value.text, refusal.value.__cause__) == (f"engine textgen makes no plan: {why}", error)
    (line,) = caplog.records
    assert (line.levelname, line.getMessage()) == ("ERROR", "engine textgen cannot plan")
    assert line.exc_info is not None
    assert line.exc_info[1] is error


def test_a_spec_of_all_that_it_may_have_is_planned_with_what_is_configured() -> None:
    values: dict[str, object] = {
        "args": ["x"] * 4_096,
        "environment": {f"A{number}": "1" for number in range(4_096)},
    }
    spec, plan = planner(vllm=EngineConfig(args=("--y",), environment={"B": "1"})).plan("a", VLLM | values)
    (engine,) = plan.processes
    assert engine.argv[-4_097:] == ("--y", *spec.args)
    assert engine.environment.keys() >= {"B", *spec.environment}


@pytest.mark.parametrize("refusal", [InvalidSpec("model: no"), EngineUnavailable("no licence")])
def test_what_an_engine_of_another_package_refuses_reaches_the_caller_as_it_is(refusal: Exception) -> None:
    with pytest.raises(type(refusal)) as reached:
        foreign(raiser(refusal)).plan("a", TEXTGEN)
    assert reached.value is refusal


@pytest.mark.parametrize(
    ("plan", "why"),
    [
        (None, "got nothing, takes a Plan"),
        (replace(SOUND, ports=(0,)), "ports[0]: got 0, takes 1 to 65535"),
        (replace(SOUND, processes=()), "processes: the last one has to be named engine"),
        (replace(SOUND, warnings=("a",) * 5_000), "warnings: 5000 entries, at most 4096"),
    ],
)
def test_an_engine_whose_plan_cannot_be_run_is_named(plan: object, why: str) -> None:
    with pytest.raises(EngineUnavailable) as refusal:
        foreign(lambda: plan).plan("a", TEXTGEN)
    assert refusal.value.text == f"engine textgen makes a plan that cannot be run: {why}"


def test_an_engine_says_itself_whether_its_ranks_need_an_address() -> None:
    for meets in (False, True):
        mine = foreign(lambda: SOUND, meets=meets, facts=LOOPBACK)
        spec, _ = mine.plan("a", TEXTGEN | PAIR)
        if not meets:
            mine.check_node(spec)
            continue
        with pytest.raises(InvalidSpec, match=r"^InvalidSpec: nodes: got 2, which needs an address"):
            mine.check_node(spec)
