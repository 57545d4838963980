"""What has to outlive the daemon about one shard, and its form on disk."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypedDict

from llmgwd.engines.plan import Http, Plan, Process
from llmgwd.model.errors import Refusal
from llmgwd.model.lifecycle import Phase, State
from llmgwd.model.spec import Defaults, ShardSpec, parse_spec, spec_values

# Readers take every record up to this number; what a newer daemon wrote is set aside, not guessed at.
SCHEMA = 1


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

    phase: Phase
    state: State
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
    """Raises NotARecord. Keys that are not known are left out, those that are missing take their default."""
    if not isinstance(content, dict) or not isinstance(content.get("schema"), int):
        raise NotARecord("no schema number")
    if content["schema"] > SCHEMA:
        raise NotARecord(f"schema {content['schema']} is newer than {SCHEMA}")
    known = {item.name for item in dataclasses.fields(Record)}
    fields: dict[str, Any] = {name: value for name, value in content.items() if name in known}
    try:
        fields["spec"] = _spec(fields["id"], fields["spec"])
        fields["plan"] = _plan(fields["plan"])
        fields["phase"] = Phase(fields["phase"])
        fields["state"] = State(fields["state"])
        fields["pids"] = {name: Pid(**pid) for name, pid in fields["pids"].items()}
        record = Record(**fields)
    except (KeyError, TypeError, ValueError, AttributeError, Refusal) as error:
        raise NotARecord(f"{type(error).__name__}: {error}") from error
    _check_types(record)
    return record


def _spec(id: str, values: Mapping[str, object]) -> ShardSpec:
    # Nothing is silent in a recorded spec, so the defaults are never looked at.
    silent = Defaults(
        port=0,
        health_path="",
        executable="",
        user="-",
        group="",
        working_directory="/",
        stop_timeout_s=0,
        rendezvous_timeout_s=0,
        takes_model=False,
        takes_args=True,
    )
    return parse_spec(id, values, silent)


def _plan(content: dict[str, Any]) -> Plan:
    processes = tuple(
        Process(**(process | {"argv": tuple(process["argv"]), "waits_for": tuple(process["waits_for"])}))
        for process in content["processes"]
    )
    http = content["http"]
    return Plan(
        processes=processes,
        ports=tuple(content["ports"]),
        http=Http(**http) if http else None,
        warnings=tuple(content["warnings"]),
    )


def _check_types(record: Record) -> None:
    for item in dataclasses.fields(Record):
        value = getattr(record, item.name)
        wanted = {str: str, int: int, float: (int, float), bool: bool}.get(item.type)  # type: ignore[arg-type]
        if wanted is not None and not isinstance(value, wanted):  # type: ignore[arg-type]
            raise NotARecord(f"{item.name} is {value!r}")
