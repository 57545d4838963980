"""A row in the table of the spec's keys, and what its rows are made of."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from llmgwd.model import checks
from llmgwd.model.checks import Check
from llmgwd.model.errors import InvalidSpec
from llmgwd.model.identifiers import ENGINE
from llmgwd.model.wording import check_known, refuse

COMMAND: Final = "command"
SIDECAR_NAME: Final = re.compile(r"[a-z0-9-]{1,32}")
UNSAID: Final = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class Defaults:
    """What the engine and the configuration say where the spec is silent.

    `port` 0: the engine has no port of its own. `user` empty: the daemon's own. `group` empty: the user's.
    `takes_user` false: no spec can name a user or group (`llmgwd --user`).
    """

    port: int
    health_path: str
    executable: str
    user: str
    group: str
    working_directory: str
    stop_timeout_s: float
    rendezvous_timeout_s: float
    takes_model: bool
    takes_args: bool
    takes_user: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Sidecar:
    """A process of the shard that is started before its engine."""

    name: str
    command: tuple[str, ...]
    waits_for_leader: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """What is known where a key was left out: the keys above it, and who else has a say."""

    id: str
    defaults: Defaults
    above: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Key:
    """One row. `default` is a value, or a function that finds one or refuses.

    `none` is the field's value for "not given": spec_values leaves it out, and it is the default where the
    row has no other.
    """

    signature: str
    check: Check[object]
    default: object | Callable[[Silence], object] = UNSAID
    none: object = UNSAID

    def when_silent(self, silence: Silence) -> object:
        default = self.none if self.default is UNSAID else self.default
        return default(silence) if callable(default) else default


def required_engine(_: Silence) -> object:
    # Which engines there are is known to engines/registry.py, where others may add theirs.
    raise InvalidSpec("engine: required")


def model_if_taken(silence: Silence) -> object:
    if silence.defaults.takes_model:
        raise InvalidSpec(f"model: required for engine {silence.above['engine']}")
    return ""


def rank_of_one(silence: Silence) -> object:
    if silence.above["nodes"] != 1:
        raise InvalidSpec(f"rank: required when nodes is {silence.above['nodes']}")
    return 0


def sidecar(where: str, value: object) -> Sidecar:
    if not isinstance(value, Mapping):
        raise refuse(where, value, "a table with name, command and waits_for_leader")
    check_known(f"{where}.", value, ("name", "command", "waits_for_leader"))
    for key in ("name", "command"):
        if key not in value:
            raise InvalidSpec(f"{where}.{key}: required")
    command = checks.argv(f"{where}.command", value["command"])
    if not command:
        raise InvalidSpec(f"{where}.command: got an empty list, takes a program and its arguments")
    return Sidecar(
        name=sidecar_name(f"{where}.name", value["name"]),
        command=command,
        waits_for_leader=checks.flag(f"{where}.waits_for_leader", value.get("waits_for_leader", False)),
    )


def sidecars(where: str, value: object) -> tuple[Sidecar, ...]:
    entries = checks.listed(sidecar, most=64, of="tables")(where, value)
    checks.refuse_twice(where, [entry.name for entry in entries], ".name")
    return entries


def sidecar_name(where: str, value: object) -> str:
    if not isinstance(value, str) or not SIDECAR_NAME.fullmatch(value) or value == ENGINE:
        raise refuse(where, value, "1 to 32 of a-z, 0-9 and '-', but not 'engine'")
    return value
