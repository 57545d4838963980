"""What callers may ask for on this node, as its administrator has it in the configuration."""

from collections.abc import Iterable
from pathlib import Path

from llmgwd.config import AgentConfig
from llmgwd.engines.plan import Plan
from llmgwd.model.errors import InvalidSpec
from llmgwd.model.spec import ShardSpec


def check_allowed(spec: ShardSpec, plan: Plan, agent: AgentConfig, configured_user: str) -> None:
    """`plan` has absolute executables. Paths are compared after links are followed.

    Empty lists of executables and directories allow all of them. Raises InvalidSpec, naming the key.
    """
    if spec.user not in {configured_user, *agent.allowed_users}:
        users = ", ".join(dict.fromkeys((configured_user, *agent.allowed_users)))
        raise InvalidSpec(f"user: got {spec.user}, takes {users} (allowed_users of the configuration)")
    for path in spec.environment_files:
        _check_inside("environment_files", path, agent.environment_file_directories)
    if agent.allowed_directories:
        _check_inside("working_directory", spec.working_directory, agent.allowed_directories)
    for process in plan.processes if agent.allowed_executables else ():
        real = Path(process.argv[0]).resolve()
        if real not in {Path(allowed).resolve() for allowed in agent.allowed_executables}:
            raise InvalidSpec(
                f"executable: {real} of process {process.name} is not one of allowed_executables"
            )


def _check_inside(key: str, path: str, folders: Iterable[str]) -> None:
    real = Path(path).resolve()
    if not any(real.is_relative_to(Path(folder).resolve()) for folder in folders):
        raise InvalidSpec(f"{key}: {path} is not inside {', '.join(folders) or 'any allowed directory'}")
