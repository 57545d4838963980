"""From a planned process to its gate: program, user, environment, output and limits on this node."""

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from llmgwd.config import Config
from llmgwd.engines.plan import Plan, Process
from llmgwd.host import executables, gate
from llmgwd.host.allowed import check_allowed
from llmgwd.host.gate import Gate, Program
from llmgwd.host.identity import Identity, Users
from llmgwd.host.journal import JournalUnavailable, open_stream
from llmgwd.host.limits import rlimit
from llmgwd.host.records import RecordStore
from llmgwd.model.errors import EngineUnavailable
from llmgwd.model.identifiers import journal_identifier
from llmgwd.model.spec import ShardSpec


class Launcher:
    """`config` is replaced when it is read again: processes launched afterwards follow it."""

    def __init__(self, config: Config, store: RecordStore) -> None:
        self.config = config
        self._store = store
        self._users = Users()
        self._namespace = config.agent.journal_namespace

    def identity(self, spec: ShardSpec) -> Identity | None:
        """Whom the shard's processes run as; `None` without a user: as the daemon itself.

        Raises EngineUnavailable, naming the user or group that this host does not know.
        """
        if not spec.user:
            return None
        try:
            return self._users.find(spec.user, spec.group)
        except KeyError as error:
            raise EngineUnavailable(f"{error.args[0]} does not exist on this node") from None

    def resolve(self, spec: ShardSpec, plan: Plan) -> Plan:
        """The plan with absolute executables, checked against this node. Blocks: belongs in a thread.

        Raises EngineUnavailable, naming the path that is missing or cannot be used; InvalidSpec, naming the
        key, for what the configuration does not allow.
        """
        identity = self.identity(spec)
        processes = tuple(self._resolve(process, identity) for process in plan.processes)
        resolved = replace(plan, processes=processes)
        if identity is not None:
            check_allowed(spec, resolved, self.config.agent, self.config.engine(spec.engine).user)
        for path in spec.environment_files:
            read_environment_file(path)
        return resolved

    def launch(self, name: str, unit: str, shard: str, spec: ShardSpec, process: Process) -> Gate:
        """The gate of one process, shut, its output going to the journal.

        `name` is the record's. Raises EngineUnavailable, StateNotSaved; OSError where the host has no room.
        """
        identity = self.identity(spec)
        program = Program(
            argv=process.argv,
            environment=self._environment(spec, process, identity),
            working_directory=process.working_directory,
            identity=identity,
            nofile=self.config.agent.limit_nofile,
            memlock=rlimit(self.config.agent.limit_memlock),
        )
        try:
            output = open_stream(journal_identifier(shard, process.name), unit, namespace=self._namespace)
        except JournalUnavailable as error:
            raise EngineUnavailable(f"no output for process {process.name}: {error}") from error
        with output:
            return gate.spawn(program, output=output, status=self._store.status_path(name, process.name))

    def _resolve(self, process: Process, identity: Identity | None) -> Process:
        path = process.environment.get("PATH", executables.PATH)
        found = executables.resolve(process.argv[0], path=path, identity=identity, or_named=process.or_named)
        executables.check_directory(process.working_directory, identity=identity)
        return replace(process, argv=(found, *process.argv[1:]))

    def _environment(self, spec: ShardSpec, process: Process, identity: Identity | None) -> dict[str, str]:
        """A clean start, then the plan, then files, then what the spec says."""
        environment: dict[str, str] = {"PATH": executables.PATH, "LANG": "C.UTF-8"} | _account(identity)
        environment |= {
            name: os.environ[name] for name in self.config.agent.environment_passthrough if name in os.environ
        }
        environment |= dict(process.environment)
        for path in spec.environment_files:
            environment |= dict(read_environment_file(path))
        return environment | dict(spec.environment)


def read_environment_file(path: str) -> Mapping[str, str]:
    """`NAME=value` lines, the value as it stands; empty lines and those that begin with `#` are left out.

    Raises EngineUnavailable, naming the file and the line's number, never what it holds.
    """
    try:
        lines = Path(path).read_text(encoding="utf-8").split("\n")  # a value may hold U+2028
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "not UTF-8"
        raise EngineUnavailable(f"environment file {path}: {why}") from error
    found = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, equals, value = line.partition("=")
        if not equals or len(name.split()) != 1 or "\0" in line:  # `export NAME=value` is a shell's
            raise EngineUnavailable(f"environment file {path}: line {number} is not NAME=value")
        found[name.strip()] = value
    return found


def _account(identity: Identity | None) -> dict[str, str]:
    if identity is None:
        names = ("HOME", "USER", "LOGNAME", "SHELL", "XDG_RUNTIME_DIR")
        return {name: os.environ[name] for name in names if name in os.environ}
    return {
        "HOME": identity.home,
        "USER": identity.user,
        "LOGNAME": identity.user,
        "SHELL": identity.shell,
    }
