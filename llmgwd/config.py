"""The configuration: TOML documents, later ones over earlier ones key by key, to one checked value.

A missing, zero or negative number takes the default, as does an empty directory or name. What is wrong
otherwise is InvalidConfig, which names file and key.
"""

import re
import tomllib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Annotated, Final, Literal, TypeVar

from llmgwd.model import checks
from llmgwd.model.checks import Check
from llmgwd.model.errors import InvalidConfig, InvalidSpec, LimitExceeded
from llmgwd.model.spec import COMMAND
from llmgwd.model.wording import check_known, plain, refuse

T = TypeVar("T")
GidIndex = Literal["auto", "off"] | int
Limit = Literal["infinity"] | int

STATE_DIR: Final = "/var/lib/llmgwd"
WORKING_DIRECTORY: Final = "/var/lib/llmgw"
MOST_BYTES: Final = (1 << 63) - 1
MOST_FILES: Final = 1 << 30  # the kernel's fs.nr_open can't be raised beyond it
NAMESPACE: Final = re.compile(r"[0-9A-Za-z_.-]{0,200}")
SLICE: Final = re.compile(r"(?!-)(?!.*--)[0-9A-Za-z:_.\\-]{1,200}(?<!-)\.slice")  # systemd.slice(5)
SYNTAX: Final = re.compile(r"(.*) \(at (?:line (\d+), column \d+|end of document)\)", re.DOTALL)


def namespace_name(where: str, value: object) -> str:
    if not isinstance(value, str) or not NAMESPACE.fullmatch(value):
        raise refuse(where, value, "the name of a namespace, or '' for the host's journal")
    return value


def slice_name(where: str, value: object) -> str:
    if not isinstance(value, str) or not SLICE.fullmatch(value):
        raise refuse(where, value, "the name of a slice such as llmgw.slice")
    return value


def address_or_none(where: str, value: object) -> str:
    return "" if value == "" else checks.address(where, value)


def gid_index(where: str, value: object) -> GidIndex:
    if value in ("auto", "off"):
        return "auto" if value == "auto" else "off"
    if isinstance(value, str):
        raise refuse(where, value, "'auto', 'off' or a number from 1 to 65535")
    return checks.whole(1, 65_535)(where, value)


def memlock(where: str, value: object) -> Limit:
    if value == "infinity":
        return "infinity"
    if isinstance(value, str):
        raise refuse(where, value, "'infinity' or a number of bytes")
    return checks.whole(1, MOST_BYTES)(where, value)


def no_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value <= 0


def no_time(value: object) -> bool:
    return no_count(value) or (isinstance(value, float) and value <= 0)


def no_text(value: object) -> bool:
    return value == ""


def never(_: object) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Setting:
    """One row: what a value may be, and which values stand for the default."""

    check: Check[object]
    is_default: Callable[[object], bool] = never


def count(most: int) -> Setting:
    return Setting(checks.whole(1, most), no_count)


TIME: Final = Setting(checks.seconds, no_time)
DIRECTORY: Final = Setting(checks.absolute, no_text)
DIRECTORIES: Final = Setting(checks.listed(checks.absolute))
NAME: Final = Setting(checks.word, no_text)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentConfig:
    """`[agent]`. Times in seconds."""

    state_dir: Annotated[str, DIRECTORY] = STATE_DIR
    journal_namespace: Annotated[str, Setting(namespace_name)] = "llmgw"
    slice: Annotated[str, Setting(slice_name)] = "llmgw.slice"
    log_lines: Annotated[int, count(100_000)] = 512
    stop_timeout_s: Annotated[float, TIME] = 60.0
    health_interval_s: Annotated[float, TIME] = 2.0
    rendezvous_timeout_s: Annotated[float, TIME] = 300.0
    alive_grace_s: Annotated[float, TIME] = 5.0
    management_address: Annotated[str, Setting(address_or_none)] = ""
    nccl_ib_gid_index: Annotated[GidIndex, Setting(gid_index, no_count)] = "auto"
    allowed_users: Annotated[tuple[str, ...], Setting(checks.listed(checks.word))] = ()
    allowed_executables: Annotated[tuple[str, ...], Setting(checks.listed(checks.absolute))] = ()
    allowed_directories: Annotated[tuple[str, ...], DIRECTORIES] = ()
    environment_file_directories: Annotated[tuple[str, ...], DIRECTORIES] = ("/etc/llmgwd/env.d",)
    environment_passthrough: Annotated[tuple[str, ...], Setting(checks.listed(checks.variable))] = ()
    limit_nofile: Annotated[int, count(MOST_FILES)] = 1_048_576
    limit_memlock: Annotated[Limit, Setting(memlock, no_count)] = "infinity"
    max_shards: Annotated[int, count(100_000)] = 1_024


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """`[engines.<name>]`. An empty executable is the engine's own, an empty group is the user's."""

    executable: Annotated[str, Setting(checks.program, no_text)] = ""
    args: Annotated[tuple[str, ...], Setting(checks.listed(checks.text))] = ()
    environment: Annotated[Mapping[str, str], Setting(checks.environment)] = field(
        default_factory=lambda: MappingProxyType({}), repr=False
    )
    user: Annotated[str, NAME] = "llmgw"
    group: Annotated[str, NAME] = ""
    working_directory: Annotated[str, DIRECTORY] = WORKING_DIRECTORY
    enabled: Annotated[bool, Setting(checks.flag)] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """All that the files say, and the defaults of what they don't."""

    agent: AgentConfig = field(default_factory=AgentConfig)
    engines: Mapping[str, EngineConfig] = field(default_factory=lambda: MappingProxyType({}))

    def engine(self, name: str) -> EngineConfig:
        return self.engines.get(name) or EngineConfig(enabled=name != COMMAND)


SETTINGS: Final[Mapping[object, Mapping[str, Setting]]] = MappingProxyType(
    {kind: checks.marks(kind, Setting) for kind in (AgentConfig, EngineConfig)}
)


def parse_config(
    documents: Sequence[tuple[str, str]],
    *,
    engines: Collection[str],
    user_mode: bool = False,
    state_dir: str = STATE_DIR,
    working_directory: str = WORKING_DIRECTORY,
) -> Config:
    """The configuration that `documents` (file name, TOML text) say together. Raises InvalidConfig.

    `engines` are the names of those that there are, `state_dir` and `working_directory` the defaults of these
    keys. `user_mode` (`llmgwd --user`) takes away what needs root: engines run as the daemon's user, so user
    and group are empty; their output goes to the host's journal, so journal_namespace is empty, too. A
    document that says otherwise is refused.
    """
    agent = AgentConfig(state_dir=state_dir)
    engine = EngineConfig(working_directory=working_directory)
    if user_mode:
        agent = replace(agent, journal_namespace="")
        engine = replace(engine, user="", group="")
    default = Config(
        agent=agent,
        engines=MappingProxyType({name: replace(engine, enabled=name != COMMAND) for name in engines}),
    )
    config = default
    for file, text in documents:
        try:
            config = _over(config, _parse_toml(text), default)
            if user_mode:
                _check_user_mode(config)
        except (InvalidSpec, LimitExceeded) as error:
            raise InvalidConfig(f"{file}: {error.text}") from error
    return config


def _parse_toml(text: str) -> Mapping[str, object]:
    try:
        return tomllib.loads(text)
    except ValueError as error:  # also of an integer with more digits than Python converts
        syntax = SYNTAX.fullmatch(str(error))
        if syntax is None:
            raise InvalidSpec(str(error)) from error
        raise InvalidSpec(f"line {syntax[2] or len(text.splitlines())}: {syntax[1]}") from error
    except RecursionError as error:
        raise InvalidSpec("nested too deeply") from error


def _over(config: Config, document: Mapping[str, object], default: Config) -> Config:
    for key in document:
        for kind, place in ((AgentConfig, "[agent]"), (EngineConfig, "[engines.NAME]")):
            if key in SETTINGS[kind]:
                raise InvalidSpec(f"{key}: unknown key, did you mean it in {place}?")
    check_known("", document, ("agent", "engines"))
    tables = _table("engines", document.get("engines", {}))
    _check_engines(tables, default.engines)
    engines = dict(config.engines)
    for name, table in tables.items():
        engines[name] = _changed(EngineConfig, f"engines.{name}", engines[name], table, default.engine(name))
    agent = _changed(AgentConfig, "agent", config.agent, document.get("agent", {}), default.agent)
    return Config(agent=agent, engines=MappingProxyType(engines))


def _check_engines(tables: Mapping[str, object], known: Collection[str]) -> None:
    for name in tables:
        if name not in known:
            takes = f"{', '.join(known)}, or one whose package is installed"
            raise InvalidSpec(f"engines.{plain(name)}: no such engine here, takes {takes}")


def _changed(kind: Callable[..., T], where: str, current: T, table: object, default: T) -> T:
    settings = SETTINGS[kind]
    values = {key: getattr(current, key) for key in settings}
    given = _table(where, table)
    check_known(f"{where}.", given, settings)
    for key, value in given.items():
        if settings[key].is_default(value):
            values[key] = getattr(default, key)
            continue
        checked = settings[key].check(f"{where}.{key}", value)
        if isinstance(checked, Mapping):  # of a table, too, later documents change only what they name
            checked = MappingProxyType({**values[key], **checked})
        values[key] = checked
    return kind(**values)  # each check gives its field's type; a test holds them to it


def _table(where: str, value: object) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise refuse(where, value, "a table")
    return value


def _check_user_mode(config: Config) -> None:
    if config.agent.journal_namespace:
        raise refuse("agent.journal_namespace", config.agent.journal_namespace, "none with --user")
    for name, engine in config.engines.items():
        for key in ("user", "group"):
            if getattr(engine, key):
                raise refuse(f"engines.{name}.{key}", getattr(engine, key), "none with --user")
