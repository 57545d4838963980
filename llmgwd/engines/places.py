"""Where things of an engine lie: programs beside its own, and directories for its sockets."""

from typing import Final

from llmgwd.model.spec import ShardSpec

LONGEST_SOCKET: Final = 107  # the bytes of a socket's path (unix(7))


def beside(executable: str, name: str) -> str:
    """The program of that name which was installed with this one; a bare name stays one, for PATH."""
    folder, slash, _ = executable.rpartition("/")
    return f"{folder}{slash}{name}"


def for_sockets(spec: ShardSpec, name: str, *, behind: int) -> str:
    """`name` below the working directory, or in /tmp where the paths of the sockets would be too long.

    `behind`: the bytes that the engine puts behind it at most.
    """
    path = f"{spec.working_directory.rstrip('/')}/{name}"
    if spec.working_directory and len(path.encode()) + behind <= LONGEST_SOCKET:
        return path
    return f"/tmp/llmgw-{name}"  # noqa: S108 (where the engines themselves would have it)
