"""The gate: a tiny shell (gate.sh) that holds a process back until its scope exists, and keeps its status.

The engine is the gate's child, so that the status outlives the daemon on every kernel, as it does with conmon
and containerd's shims.
"""

import os
import re
import resource
import shutil
import socket
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from llmgwd.host.identity import Identity
from llmgwd.host.process import Held
from llmgwd.model.errors import StateNotSaved

_SHELL = ("/bin/sh", str(Path(__file__).with_name("gate.sh")))

_BLANKS = " " * 15 + "\n"

# A value waits under such a name until the program may have it.
_WAITING = "LLMGWD_LATE_"
# What a loader or a shell acts upon, sets or changes: given to the program once privileges are dropped, never
# to the gate, which is root's (ld.so(8); bash(1) and dash(1), shell variables).
_LATE_PREFIXES = (_WAITING, "LD_", "BASH", "GLIBC_", "MALLOC_")
_LATE_NAMES = frozenset(
    {
        "GCONV_PATH", "LOCPATH", "NLSPATH",
        "_", "DIRSTACK", "ENV", "EPOCHREALTIME", "EPOCHSECONDS", "EUID", "FUNCNAME", "GROUPS", "HISTCMD",
        "IFS", "LINENO", "OLDPWD", "OPTARG", "OPTERR", "OPTIND", "PIPESTATUS", "POSIXLY_CORRECT", "PPID",
        "PS1", "PS2", "PS4", "PWD", "RANDOM", "REPLY", "SECONDS", "SHELLOPTS", "SHLVL", "SRANDOM", "TMOUT",
        "UID",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What stands behind a gate."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    working_directory: str
    identity: Identity | None
    nofile: int
    memlock: int  # bytes; resource.RLIM_INFINITY for none


class Gate:
    """One gate process and, once opened, the program as its child."""

    def __init__(self, child: subprocess.Popen[bytes], status: Path) -> None:
        self._child = child
        self._status = status
        self.process = Held.open(child.pid)

    def open(self) -> None:
        """The program runs from now on. A gate that has ended meanwhile is left to its watcher."""
        self._close(b"go\n")

    def shut(self) -> None:
        """The program will never run, unless it was opened before."""
        self._close(b"")

    def release(self) -> None:
        """Reaps the gate where it has ended; an open gate lives on without us."""
        self.shut()
        self._child.poll()
        # A Popen that is dropped while its child lives takes that for a leak, and warns.
        if self._child.returncode is None:
            self._child.returncode = 0
        self.process.release()

    def reap(self) -> None:
        self._child.poll()

    def _close(self, word: bytes) -> None:
        pipe = self._child.stdin
        if pipe is None or pipe.closed:
            return
        try:
            pipe.write(word)
            pipe.close()
        except BrokenPipeError:
            pass


def make_status(path: Path) -> None:
    """The exit file, with room for the status already taken. Raises StateNotSaved, naming it."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(_BLANKS)
    except OSError as error:
        raise StateNotSaved(f"exit file {path}: {error.strerror}") from error


def read_status(path: Path) -> str:
    """`closed` (never ran), a number as a shell reports it, or empty: not ended, or the gate was killed.

    A file that is missing or holds anything else reads as empty: a status is never guessed.
    """
    try:
        word = path.read_bytes()[:32].split(b"\n", 1)[0].strip().decode("ascii", "replace")
    except OSError:
        return ""
    return word if word == "closed" or (word.isdigit() and int(word) <= 255) else ""


def spawn(program: Program, *, output: socket.socket, status: Path) -> Gate:
    """Starts the gate of `program`, shut. `output` becomes its standard output and error.

    Raises StateNotSaved, and OSError where the gate cannot be made.
    """
    make_status(status)
    inherited, late = _split(program)
    child = subprocess.Popen(
        [*_SHELL, str(status), *_drop(program.identity), *late, *program.argv],
        stdin=subprocess.PIPE,
        stdout=output.fileno(),
        stderr=subprocess.DEVNULL,
        bufsize=0,
        cwd=program.working_directory,
        env=inherited,
        umask=0o027,
        start_new_session=True,
    )
    try:
        _set_limits(child.pid, program)
        return Gate(child, status)
    except BaseException:
        with child:
            child.kill()
        raise


def _drop(identity: Identity | None) -> tuple[str, ...]:
    """Takes the program out of the gate's process group, and privileges from it."""
    session = (_tool("setsid"),)
    if identity is None or (identity.uid == os.geteuid() and identity.gid == os.getegid()):
        return session
    return (
        *session,
        _tool("setpriv"),
        "--reuid", str(identity.uid),
        "--regid", str(identity.gid),
        "--groups", ",".join(map(str, identity.groups)),
        "--inh-caps=-all",
        "--ambient-caps=-all",
        "--",
    )  # fmt: skip


def _split(program: Program) -> tuple[dict[str, str], tuple[str, ...]]:
    """The environment of the gate, and the words that make the program's of it.

    Anybody can read these words in a list of processes: they name variables and hold no value.
    """
    environment: dict[str, str] = {}
    late: dict[str, str] = {}
    for name, value in program.environment.items():
        if name.startswith(_LATE_PREFIXES) or name in _LATE_NAMES or not _is_shell_name(name):
            place = f"{_WAITING}{len(late)}"
            environment[place] = value
            late[place] = re.sub(r'["\\$]', r"\\\g<0>", name)
        else:
            environment[name] = value
    if not late:
        return environment, ()
    moved = " ".join(f'"{name}=${{{place}}}"' for place, name in late.items())
    # env(1) would take a path with a `=` for one more variable
    between = (_tool("nice"), "-n", "0") if "=" in program.argv[0] else ()
    return environment, (
        _tool("env"),
        *(f"--unset={place}" for place in late),
        f"--split-string=-- {moved}",
        *between,
    )


def _is_shell_name(name: str) -> bool:
    # dash drops what it takes for no name of its own
    return name.isascii() and name.isidentifier()


def _set_limits(pid: int, program: Program) -> None:
    """The gate's limits become the engine's. Raised as far as this daemon may."""
    for limit, wanted in (
        (resource.RLIMIT_NOFILE, program.nofile),
        (resource.RLIMIT_MEMLOCK, program.memlock),
    ):
        try:
            resource.prlimit(pid, limit, (wanted, wanted))
        except (PermissionError, ValueError):
            _, hard = resource.prlimit(pid, limit)
            resource.prlimit(pid, limit, (hard, hard))
        except ProcessLookupError:
            return


def _tool(name: str) -> str:
    found = shutil.which(name, path="/usr/bin:/bin:/usr/sbin:/sbin")
    if found is None:
        raise FileNotFoundError(f"{name} (util-linux) is missing")
    return found
