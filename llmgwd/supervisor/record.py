"""What has to outlive the daemon about one shard, and its form on disk."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import UnionType
from typing import Any, TypedDict, get_args, get_origin

from llmgwd.engines.plan import Plan
from llmgwd.model.errors import Refusal
from llmgwd.model.lifecycle import Phase, State
from llmgwd.model.spec import KEYS, Defaults, ShardSpec, parse_spec, spec_values
from llmgwd.model.wording import kind_of

# Readers take every record up to this number; what a newer daemon wrote is set aside, not guessed at.
SCHEMA = 1
# No clock shows more: what is neither a number nor finite is refused with it.
_LATEST_S = 1e12


class NotARecord(Exception):  # noqa: N818
    """The content is no record that this version understands."""


@dataclass(frozen=True, slots=True)
class Pid:
    """A process as it can be found again: see host/process.py for `start_time`."""

    pid: int
    start_time: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """Times that end in `_us` are µs since the epoch, for people; those in `_until` are seconds of
    CLOCK_MONOTONIC of this boot, 0 for none."""

    id: str
    spec: ShardSpec
    plan: Plan
    unit: str
    boot_id: str
    uid: int
    accepted_us: int
    phase: Phase = Phase.PENDING
    state: State = State.PENDING
    reason: str = ""
    again: bool = False  # started anew by a daemon that found it half started
    starts: int = 1
    invocation_id: str = ""
    control_group: str = ""
    pids: Mapping[str, Pid] = field(default_factory=dict)
    leader_until: Mapping[str, float] = field(default_factory=dict)
    ready_until: float = 0.0
    finish_until: float = 0.0
    stop_asked: bool = False  # by a caller, with `stop_limit_s`
    stop_limit_s: float = 0.0
    stop_until: float = 0.0
    terminated: bool = False  # the engine alone had its SIGTERM: never a second one by accident
    started_us: int = 0
    ready_us: int = 0
    exit_code: int = -1
    exit_signal: str = ""
    oom_kills: int = 0
    killed: bool = False  # something needed SIGKILL from us or PID 1


class Changes(TypedDict, total=False):
    """The fields that change in a record's life."""

    invocation_id: str
    control_group: str
    pids: Mapping[str, Pid]
    leader_until: Mapping[str, float]
    ready_until: float
    finish_until: float
    stop_asked: bool
    stop_limit_s: float
    stop_until: float
    terminated: bool
    started_us: int
    ready_us: int
    exit_code: int
    exit_signal: str
    oom_kills: int
    killed: bool


class Noted(Changes, total=False):
    """The same, and the sentence for people."""

    reason: str


def to_json(record: Record) -> dict[str, object]:
    content = {item.name: getattr(record, item.name) for item in dataclasses.fields(record)}
    return content | {
        "schema": SCHEMA,
        "spec": spec_values(record.spec),
        "plan": dataclasses.asdict(record.plan),
        "pids": {name: dataclasses.asdict(pid) for name, pid in record.pids.items()},
        "leader_until": dict(record.leader_until),
    }


def from_json(content: object) -> Record:
    """Raises NotARecord, naming the key, never what it holds.

    Keys that are not known are left out, those that are missing take their default.
    """
    if not isinstance(content, dict) or type(content.get("schema")) is not int:
        raise NotARecord("no schema number")
    if content["schema"] > SCHEMA:
        raise NotARecord(f"schema {content['schema']} is newer than {SCHEMA}")
    if {"id", "spec"} <= content.keys():
        content = content | {"spec": _spec(content["id"], content["spec"])}
    record: Record = _read_fields(Record, content, "")
    return record


def _spec(id: Any, values: object) -> ShardSpec:
    # Nothing is silent in a recorded spec but what is nothing by default, so these are never looked at.
    silent = Defaults(
        port=0,
        health_path="",
        executable="",
        user="",
        group="",
        working_directory="",
        stop_timeout_s=0,
        rendezvous_timeout_s=0,
        takes_model=False,
        takes_args=True,
    )
    if not isinstance(values, dict):
        raise NotARecord(f"spec: got {kind_of(values)}")
    try:
        return parse_spec(id, {key: value for key, value in values.items() if key in KEYS}, silent)
    except Refusal as refusal:
        raise NotARecord(f"spec: {refusal.text}") from refusal


def _read_fields(kind: Any, content: dict[str, Any], where: str) -> Any:
    found = {}
    for item in dataclasses.fields(kind):
        name = where + item.name
        if item.name in content:
            found[item.name] = _read(item.type, content[item.name], name)
        elif item.default is dataclasses.MISSING and item.default_factory is dataclasses.MISSING:
            raise NotARecord(f"{name}: missing")
    return kind(**found)


def _read(kind: Any, value: Any, where: str) -> Any:
    """What JSON has made of a value of the declared type `kind`."""
    if isinstance(kind, UnionType):
        return None if value is None else _read(get_args(kind)[0], value, where)
    if isinstance(value, dict) and dataclasses.is_dataclass(kind):
        return _read_fields(kind, value, where + ".")
    if isinstance(value, dict) and get_origin(kind) is Mapping:
        return {key: _read(get_args(kind)[1], entry, f"{where}.{key}") for key, entry in value.items()}
    if isinstance(value, list) and get_origin(kind) is tuple:
        return tuple(_read(get_args(kind)[0], entry, where) for entry in value)
    return _read_plain(kind, value, where)


def _read_plain(kind: Any, value: Any, where: str) -> Any:
    if kind is float and type(value) in {int, float} and abs(value) <= _LATEST_S:
        return float(value)
    if kind in {Phase, State} and value in list(kind):
        return kind(value)
    if type(value) is kind and kind is not float:
        return value
    raise NotARecord(f"{where}: got {kind_of(value)}")
