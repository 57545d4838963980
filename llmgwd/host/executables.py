"""Can this user run that program, there? Asked before anything starts, so that a no is a plain sentence."""

import os
import re
import shutil
import stat
import subprocess
from collections.abc import Sequence
from pathlib import Path

from llmgwd.host.identity import Identity
from llmgwd.model.errors import EngineUnavailable

# Where a bare name is looked for, and what engines get as PATH.
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def resolve(executable: str, *, path: str, identity: Identity | None, or_named: Sequence[str] = ()) -> str:
    """The absolute path of `executable`, a bare name being looked for in `path`.

    Where it is not there, each of `or_named` is tried the same way.
    Raises EngineUnavailable, naming the path, where there is no such program, where the kernel would not
    take it (a shell would then try to interpret it), or where `identity` may not run it.
    """
    names = (executable, *or_named)
    found = next((there for name in names if (there := _find(name, path))), executable)
    if "/" not in found:
        raise EngineUnavailable(f"executable {' or '.join(names)} not found in {path}")
    if not found.startswith("/"):
        raise EngineUnavailable(f"executable {executable} is not an absolute path")
    interpreter = _check_file(Path(found))
    if not _may_run(found, identity):
        raise EngineUnavailable(f"executable {found} may not be run by user {_name(identity)}")
    if interpreter and not _may_run(interpreter, identity):
        raise EngineUnavailable(
            f"executable {found}: its interpreter {interpreter} may not be run by user {_name(identity)}"
        )
    return found


def _find(name: str, path: str) -> str | None:
    if "/" not in name:
        return shutil.which(name, mode=os.F_OK, path=path)
    return name if os.path.lexists(name) else None


def check_directory(folder: str, *, identity: Identity | None) -> None:
    """Raises EngineUnavailable, naming the directory, where the user could not work in it."""
    if not os.path.isdir(folder):
        raise EngineUnavailable(f"working directory {folder} does not exist or is no directory")
    if not _may_run(folder, identity):
        raise EngineUnavailable(f"working directory {folder} may not be entered by user {_name(identity)}")


def _check_file(path: Path) -> str:
    """The interpreter of a script, empty for a program."""
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):  # opening a pipe would wait for its writer
            raise EngineUnavailable(f"executable {path} is no regular file")
        with path.open("rb") as file:
            head = file.read(256)
    except OSError as error:
        raise EngineUnavailable(f"executable {path}: {error.strerror}") from error
    if not mode & 0o111:
        raise EngineUnavailable(f"executable {path} has no execute permission")
    if not head.startswith(b"#!"):
        if not _is_native(head):
            raise EngineUnavailable(
                f"executable {path} is neither a program of this machine nor a script with #!"
            )
        return ""
    # As the kernel reads it: blanks and tabs divide, the CR of a file from Windows is part of the name.
    interpreter = os.fsdecode(re.split(rb"[ \t\n]", head[2:].lstrip(b" \t"), maxsplit=1)[0])
    if not interpreter:
        raise EngineUnavailable(f"executable {path}: its first line names no interpreter")
    if not os.path.isfile(interpreter) or not os.access(interpreter, os.X_OK):
        raise EngineUnavailable(f"executable {path}: its interpreter {interpreter} is not there")
    return interpreter


def _is_native(head: bytes) -> bool:
    """An ELF file of the same word size, byte order and processor as the shell that would run it."""
    if not head.startswith(b"\x7fELF"):
        return False
    with Path("/bin/sh").open("rb") as file:
        shell = file.read(20)
    return head[4:6] == shell[4:6] and head[18:20] == shell[18:20]


def _may_run(path: str, identity: Identity | None) -> bool:
    # Refused to root as well where the file system is mounted noexec.
    if not os.access(path, os.X_OK):
        return False
    if identity is None or identity.uid == os.geteuid():
        return True
    if _modes_allow(Path(path), identity):
        return True
    # Modes do not tell all (access control lists): the kernel is asked, as that user.
    asked = subprocess.run(
        ["/usr/bin/test", "-x", path],
        user=identity.uid,
        group=identity.gid,
        extra_groups=identity.groups,
        env={},
        stdin=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
        timeout=5,
    )
    return asked.returncode == 0


def _modes_allow(path: Path, identity: Identity) -> bool:
    # A link has to be reached as well as what it leads to.
    real = path.resolve()
    return all(_mode_allows(step.stat(), identity) for step in {real, *real.parents, *path.parents})


def _mode_allows(step: os.stat_result, identity: Identity) -> bool:
    if step.st_uid == identity.uid:
        return bool(step.st_mode & stat.S_IXUSR)
    if step.st_gid in identity.groups:
        return bool(step.st_mode & stat.S_IXGRP)
    return bool(step.st_mode & stat.S_IXOTH)


def _name(identity: Identity | None) -> str:
    return identity.user if identity else str(os.geteuid())
