"""A record comes back from disk as it was; what is no record is refused, and nothing worse."""

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from llmgwd.engines.plan import Http, Plan, Process
from llmgwd.engines.registry import Engines
from llmgwd.model.errors import Refusal
from llmgwd.model.lifecycle import Phase, State
from llmgwd.model.spec import ShardSpec, parse_spec
from llmgwd.supervisor.record import SCHEMA, NotARecord, Pid, Record, from_json, to_json
from tests.engines.specs import LEADER, NOWHERE
from tests.model.specs import COMMAND, DEFAULTS, valid_values

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
NAMES = st.from_regex(r"[a-z0-9-]{1,8}", fullmatch=True)
TIMES = st.floats(0, 1e9)
NUMBERS = st.integers(0, 2**53)
PROCESSES = st.builds(
    Process,
    name=NAMES,
    argv=st.lists(TEXTS, max_size=4).map(tuple),
    environment=st.dictionaries(TEXTS, TEXTS, max_size=3),
    working_directory=TEXTS,
    waits_for=st.lists(TEXTS, max_size=2).map(tuple),
    or_named=st.lists(TEXTS, max_size=2).map(tuple),
)
PLANS = st.builds(
    Plan,
    processes=st.lists(PROCESSES, max_size=3).map(tuple),
    ports=st.lists(st.integers(1, 65_535), max_size=2).map(tuple),
    http=st.none() | st.builds(Http, TEXTS, TEXTS, TEXTS, timeout_s=TIMES, is_endpoint=st.booleans()),
    warnings=st.lists(TEXTS, max_size=2).map(tuple),
)
OTHERS: Mapping[str, st.SearchStrategy[Any]] = {
    "phase": st.sampled_from(Phase),
    "state": st.sampled_from(State),
    "pids": st.dictionaries(NAMES, st.builds(Pid, NUMBERS, NUMBERS), max_size=3),
    "leader_until": st.dictionaries(NAMES, TIMES, max_size=2),
    "plan": PLANS,
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS | st.text(st.characters(), max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)

# Few, and however long each takes on a busy machine: tests/model looks at specs more closely.
NO_HURRY = settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def specs(draw: st.DrawFn) -> ShardSpec:
    values = draw(valid_values())
    return parse_spec("a", values, DEFAULTS[str(values["engine"])])


@st.composite
def records(draw: st.DrawFn) -> Record:
    """Any that a daemon could write, and some that none would."""
    kinds = {str: TEXTS, int: NUMBERS, float: TIMES, bool: st.booleans()}
    values = {
        item.name: draw(OTHERS[item.name] if item.name in OTHERS else kinds[item.type])  # type: ignore[index]
        for item in dataclasses.fields(Record)
        if item.name not in {"id", "spec"}
    }
    return Record(id="a", spec=draw(specs()), **values)


def simple(**changes: object) -> Record:
    spec = parse_spec("a", {"engine": "command", "command": ["/bin/true"]}, COMMAND)
    plan = Engines()["command"].plan(spec, NOWHERE, (), {})
    record = Record(
        id="a", spec=spec, plan=plan, unit="u.scope", boot_id="b", uid=1, accepted_us=2,
        pids={"engine": Pid(3, 4)}, leader_until={"engine": 5.0},
    )  # fmt: skip
    return replace(record, **changes)  # type: ignore[arg-type]


def on_disk(record: Record) -> dict[str, Any]:
    content = json.loads(json.dumps(to_json(record)))
    assert isinstance(content, dict)
    return content


@NO_HURRY
@given(records())
def test_a_record_comes_back_as_it_was(record: Record) -> None:
    assert from_json(on_disk(record)) == record


@NO_HURRY
@given(specs())
def test_what_an_engine_plans_can_be_written(spec: ShardSpec) -> None:
    try:
        plan = Engines()[spec.engine].plan(spec, LEADER, (), {})
    except Refusal:
        return
    record = simple(spec=spec, plan=plan)
    assert from_json(on_disk(record)) == record


@pytest.mark.parametrize("user", ["", "someone"])
def test_the_user_comes_back_also_where_there_is_none(user: str) -> None:
    defaults = replace(COMMAND, user=user, takes_user=bool(user))
    record = simple(spec=parse_spec("a", {"engine": "command", "command": ["/bin/true"]}, defaults))
    assert from_json(on_disk(record)) == record


def test_keys_that_are_not_known_are_left_out_at_every_depth() -> None:
    content = on_disk(simple(plan=replace(simple().plan, http=Http("u", "p", "m"))))
    newer = {"colour": "blue"}
    content |= newer
    for part in (content["spec"], content["plan"], content["plan"]["http"], content["pids"]["engine"]):
        part.update(newer)
    content["plan"]["processes"][0].update(newer)
    assert from_json(content) == simple(plan=replace(simple().plan, http=Http("u", "p", "m")))


def test_keys_that_are_missing_take_their_default() -> None:
    required = {"schema", "id", "spec", "plan", "unit", "boot_id", "uid", "accepted_us"}
    content = {key: value for key, value in on_disk(simple()).items() if key in required}
    assert from_json(content) == simple(pids={}, leader_until={})


@pytest.mark.parametrize("key", ["schema", "id", "spec", "plan", "unit", "boot_id", "uid", "accepted_us"])
def test_keys_without_a_default_are_required(key: str) -> None:
    content = on_disk(simple())
    del content[key]
    with pytest.raises(NotARecord, match=f"^(no {key} number|{key}: missing)$"):
        from_json(content)


def test_a_record_of_a_newer_schema_is_refused() -> None:
    with pytest.raises(NotARecord, match=f"^schema {SCHEMA + 1} is newer than {SCHEMA}$"):
        from_json(on_disk(simple()) | {"schema": SCHEMA + 1})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("schema", "1"), ("schema", True), ("schema", None), ("id", 1), ("id", ""), ("unit", None),
        ("uid", "1"), ("uid", 1.5), ("uid", True), ("again", 1), ("again", "no"), ("phase", "resting"),
        ("phase", 1), ("state", ["ready"]), ("reason", 0), ("stop_until", "soon"), ("stop_until", True),
        ("stop_until", float("nan")), ("ready_until", float("inf")), ("ready_until", 10**400),
        ("pids", []), ("pids", {"engine": 3}), ("pids", {"engine": {"pid": "3", "start_time": 4}}),
        ("pids", {"engine": {"pid": 3}}), ("leader_until", 5), ("leader_until", {"engine": "soon"}),
        ("spec", None), ("spec", []), ("spec", ["engine"]), ("spec", "engine"), ("spec", {}),
        ("plan", None), ("plan", {}), ("plan", {"processes": "a", "ports": [], "http": None, "warnings": []}),
    ],
)  # fmt: skip
def test_a_value_of_the_wrong_type_is_refused_by_name(key: str, value: object) -> None:
    with pytest.raises(NotARecord, match=key):
        from_json(on_disk(simple()) | {key: value})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("name", 1), ("argv", "abc"), ("argv", [1]), ("environment", []), ("environment", {"A": 1}),
        ("working_directory", None), ("waits_for", "a:1"),
    ],
)  # fmt: skip
def test_a_process_of_the_wrong_type_is_refused_by_name(key: str, value: object) -> None:
    content = on_disk(simple())
    content["plan"]["processes"][0][key] = value
    with pytest.raises(NotARecord, match=rf"plan\.processes\.{key}"):
        from_json(content)


@NO_HURRY
@given(JSON)
def test_what_is_no_record_is_refused(content: object) -> None:
    with pytest.raises(NotARecord):
        from_json(content)


@NO_HURRY
@given(st.data())
def test_a_record_with_anything_in_it_is_a_record_or_refused(data: st.DataObject) -> None:
    content = on_disk(simple())
    place: Any = content
    while True:
        key = data.draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
        if not (isinstance(place[key], dict | list) and place[key] and data.draw(st.booleans())):
            break
        place = place[key]
    place[key] = data.draw(JSON)
    try:
        record = from_json(content)
    except NotARecord:
        return
    assert from_json(on_disk(record)) == record
