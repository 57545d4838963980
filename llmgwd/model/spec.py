"""The spec: what a shard shall run, one field a key of the public vocabulary, and the only way to make one.

The annotation of a field is the key's row in the table: D-Bus signature, check, and what it is when left out.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Annotated, Final

from llmgwd.model import checks, spec_keys
from llmgwd.model.errors import InvalidSpec
from llmgwd.model.spec_keys import COMMAND, Defaults, Key, Sidecar, Silence
from llmgwd.model.wording import check_known, shown

__all__ = [
    "COMMAND",
    "KEYS",
    "Defaults",
    "ShardSpec",
    "Sidecar",
    "check_id",
    "parse_spec",
    "spec_values",
]

MOST_NODES: Final = 4_096
MOST_RANKS: Final = 65_536
MOST: Final = (1 << 63) - 1  # PID 1 takes 2**64 - 1 for infinity; JSON's readers and TOML end here
NOTHING: Final[Mapping[str, str]] = MappingProxyType({})

# Keys without an effect so far, and the one value of each that asks for none.
NOT_YET: Final[Mapping[str, object]] = MappingProxyType(
    {"health_generate": False, "on_unhealthy": "report", "ready_stall_s": 0.0}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardSpec:
    """All concrete: every default is filled in. Times in seconds, memory in bytes."""

    engine: Annotated[str, Key("s", checks.word, spec_keys.required_engine)]
    model: Annotated[str, Key("s", checks.line, spec_keys.model_if_taken, none="")]
    served_model_name: Annotated[str, Key("s", checks.line, lambda silence: silence.above["model"], none="")]
    replica_id: Annotated[str, Key("s", checks.line, lambda silence: silence.id)]
    nodes: Annotated[int, Key("u", checks.whole(1, MOST_NODES), 1)]
    rank: Annotated[int, Key("u", checks.integer, spec_keys.rank_of_one)]
    leader_address: Annotated[str, Key("s", checks.address, none="")]
    leader_port: Annotated[int, Key("u", checks.port, none=0)]
    peers: Annotated[tuple[str, ...], Key("as", checks.listed(checks.peer), none=())]
    executor: Annotated[str, Key("s", checks.one_of("mp", "ray"), none="")]
    data_parallel_balancing: Annotated[
        str, Key("s", checks.one_of("internal", "hybrid", "external"), none="internal")
    ]
    host: Annotated[str, Key("s", checks.address, "127.0.0.1")]
    port: Annotated[int, Key("u", checks.port, lambda silence: silence.defaults.port, none=0)]
    gpus: Annotated[tuple[str, ...] | None, Key("as", checks.listed(checks.gpu, unique=True), none=None)]
    tensor_parallel: Annotated[int, Key("u", checks.whole(1, MOST_RANKS), 1)]
    pipeline_parallel: Annotated[int, Key("u", checks.whole(1, MOST_RANKS), 1)]
    data_parallel: Annotated[int, Key("u", checks.whole(1, MOST_RANKS), 1)]
    args: Annotated[tuple[str, ...], Key("as", checks.listed(checks.text), none=())]
    environment: Annotated[Mapping[str, str], Key("a{ss}", checks.environment, none=NOTHING)] = field(
        repr=False
    )
    environment_files: Annotated[tuple[str, ...], Key("as", checks.listed(checks.absolute), none=())]
    executable: Annotated[str, Key("s", checks.program, lambda silence: silence.defaults.executable, none="")]
    command: Annotated[tuple[str, ...], Key("as", checks.argv, none=())]
    sidecars: Annotated[tuple[Sidecar, ...], Key("aa{sv}", spec_keys.sidecars, none=())]
    waits_for_leader: Annotated[bool, Key("b", checks.flag, none=False)]
    health_path: Annotated[str, Key("s", checks.url_path, lambda silence: silence.defaults.health_path)]
    verify_listener: Annotated[bool, Key("b", checks.flag, default=True)]
    health_generate: Annotated[bool, Key("b", checks.flag, default=False)]
    on_unhealthy: Annotated[str, Key("s", checks.one_of("report", "stop"), "report")]
    user: Annotated[str, Key("s", checks.word, lambda silence: silence.defaults.user, none="")]
    group: Annotated[str, Key("s", checks.word_or_none, lambda silence: silence.defaults.group)]
    working_directory: Annotated[
        str, Key("s", checks.absolute, lambda silence: silence.defaults.working_directory, none="")
    ]
    ready_timeout_s: Annotated[float, Key("d", checks.seconds, 1800.0)]
    ready_stall_s: Annotated[float, Key("d", checks.seconds, 0.0)]
    stop_timeout_s: Annotated[
        float, Key("d", checks.seconds, lambda silence: silence.defaults.stop_timeout_s)
    ]
    drain_timeout_s: Annotated[float, Key("d", checks.seconds, 0.0)]
    rendezvous_timeout_s: Annotated[
        float, Key("d", checks.seconds, lambda silence: silence.defaults.rendezvous_timeout_s)
    ]
    memory_max: Annotated[int | None, Key("t", checks.whole(1, MOST), none=None)]
    cpu_weight: Annotated[int | None, Key("t", checks.whole(1, 10_000), none=None)]
    tasks_max: Annotated[int | None, Key("t", checks.whole(1, MOST), none=None)]
    allowed_cpus: Annotated[str, Key("s", checks.numbers(8191), none="")]
    allowed_memory_nodes: Annotated[str, Key("s", checks.numbers(1023), none="")]


TABLE: Final[Mapping[str, Key]] = MappingProxyType(checks.marks(ShardSpec, Key))
KEYS: Final[Mapping[str, str]] = MappingProxyType({name: key.signature for name, key in TABLE.items()})


def check_id(id: str) -> None:
    """Raise InvalidSpec unless `id` can be a shard's."""
    checks.shard_id("id", id)


def parse_spec(id: str, values: Mapping[str, object], defaults: Defaults) -> ShardSpec:
    """The spec that `values` (plain ones, as JSON and TOML have them) say.

    Raises InvalidSpec, which names the key, what it got and what it takes, or LimitExceeded.
    """
    check_id(id)
    check_known("", values, TABLE)
    got: dict[str, object] = {}
    for name, key in TABLE.items():
        if name in values:
            got[name] = key.check(name, values[name])
        else:
            got[name] = key.when_silent(Silence(id=id, defaults=defaults, above=got))
    make: Callable[..., ShardSpec] = ShardSpec  # each check gives its field's type; a test holds them to it
    spec = make(**got)
    for rule in (_is_supported, _suits_its_engine, _has_its_place, _can_be_reached, _may_name_a_user):
        rule(spec, defaults)
    return spec


def spec_values(spec: ShardSpec) -> dict[str, object]:
    """The plain values of which parse_spec makes the same spec, whatever the configuration says by then.

    Only what was not given at all (a command's port, the user of a daemon that is one itself) is left to it.
    """
    values = {name: getattr(spec, name) for name in TABLE}
    return {name: _plain(value) for name, value in values.items() if value != TABLE[name].none}


def _plain(value: object) -> object:
    match value:
        case tuple():
            return [_plain(entry) for entry in value]
        case Mapping():
            return dict(value)
        case Sidecar():
            return {
                "name": value.name,
                "command": list(value.command),
                "waits_for_leader": value.waits_for_leader,
            }
        case _:
            return value


def _is_supported(spec: ShardSpec, _: Defaults) -> None:
    for name, value in NOT_YET.items():
        if getattr(spec, name) != value:
            raise InvalidSpec(f"{name}: not supported yet by this version")


def _suits_its_engine(spec: ShardSpec, defaults: Defaults) -> None:
    for name in ("command", "sidecars", "waits_for_leader"):
        if spec.engine != COMMAND and getattr(spec, name):
            raise InvalidSpec(f"{name}: only for engine {COMMAND} (engine is {spec.engine})")
    if spec.engine == COMMAND and not spec.command:
        raise InvalidSpec("command: got none, takes a program and its arguments")
    if spec.args and not defaults.takes_args:
        raise InvalidSpec(f"args: not for engine {spec.engine}")


def _has_its_place(spec: ShardSpec, _: Defaults) -> None:
    if not 0 <= spec.rank < spec.nodes:
        takes = f"0 to {spec.nodes - 1}" if spec.nodes > 1 else "0"
        raise InvalidSpec(f"rank: got {spec.rank}, takes {takes} (nodes is {spec.nodes})")
    for name in ("leader_address", "leader_port"):
        if getattr(spec, name):
            continue
        if spec.nodes > 1:
            raise InvalidSpec(f"{name}: required when nodes is {spec.nodes}")
        if spec.waits_for_leader or any(sidecar.waits_for_leader for sidecar in spec.sidecars):
            raise InvalidSpec(f"{name}: required when a process waits for the leader")


def _can_be_reached(spec: ShardSpec, _: Defaults) -> None:
    if spec.health_path and not spec.port:
        raise InvalidSpec(f"port: required when health_path is {shown(spec.health_path)}")


def _may_name_a_user(spec: ShardSpec, defaults: Defaults) -> None:
    for name in ("user", "group"):
        if getattr(spec, name) and not defaults.takes_user:
            got = shown(getattr(spec, name))
            raise InvalidSpec(f"{name}: got {got}, takes none: engines run as the daemon's own user here")
