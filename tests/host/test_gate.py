"""The gate: what it lets through to the program behind it, and what it keeps of its end."""

import asyncio
import os
import pwd
import resource
import shutil
import signal
import socket
import subprocess
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from llmgwd.host import gate
from llmgwd.host.gate import Gate, Program, make_status, read_status
from llmgwd.host.identity import Identity
from llmgwd.host.process import Held, first_child
from llmgwd.model.errors import StateNotSaved

SCRIPT = Path(gate.__file__).with_name("gate.sh")
SHELLS = {
    "sh": ("/bin/sh",),
    "dash": ("/bin/dash",),
    "bash": ("/bin/bash",),
    "bash --posix": ("/bin/bash", "--posix"),
}
RLIMITS = (resource.RLIMIT_NOFILE, resource.RLIMIT_MEMLOCK)

under_each_shell = pytest.mark.parametrize("shell", ["dash", "bash", "bash --posix"], indirect=True)
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")


@dataclass
class Behind:
    """A gate, and what the program behind it prints."""

    gate: Gate
    status_file: Path
    printed: socket.socket

    @property
    def status(self) -> str:
        return read_status(self.status_file)

    async def ended(self) -> tuple[int, str]:
        """The gate's own exit status and the one that it kept, once it has ended."""
        await self.gate.process.ended
        self.gate.reap()
        return self.gate._child.returncode, self.status

    async def word(self) -> bytes:
        """What is printed next."""
        return await asyncio.get_running_loop().sock_recv(self.printed, 65536)

    async def words(self) -> bytes:
        """All that is printed until nobody is left who could."""
        found = b""
        while piece := await self.word():
            found += piece
        return found

    async def run(self) -> bytes:
        """All that the program prints, from an opened gate to a good end."""
        self.gate.open()
        printed = await self.words()
        assert await self.ended() == (0, "0"), printed
        return printed

    async def clear(self) -> None:
        """Nothing stays behind, whatever the test did."""
        if not self.gate.process.ended.done():
            if child := first_child(self.gate.process.pid):
                os.kill(child, signal.SIGKILL)
            self.gate.process.send(signal.SIGKILL)
            await self.ended()
        self.gate.release()
        self.printed.close()


Spawn = Callable[..., Behind]


@pytest.fixture
def shell(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What runs the gate: `sh` where a test does not say."""
    program = SHELLS[getattr(request, "param", "sh")]
    if not Path(program[0]).exists():
        pytest.skip(f"this host has no {program[0]}")
    monkeypatch.setattr(gate, "_SHELL", (*program, str(SCRIPT)))


@pytest.fixture
async def spawn(shell: None, tmp_path: Path) -> AsyncIterator[Spawn]:
    """Makes gates, which are shut: `spawn("/bin/true", environment={...}, ...)`."""
    made: list[Behind] = []

    def one(*argv: str, **parts: Any) -> Behind:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        status = tmp_path / "state/llmgw-shard-a.exits" / f"engine-{len(made)}"
        with theirs:
            child = gate.spawn(program(tmp_path, *argv, **parts), output=theirs, status=status)
        made.append(Behind(child, status, ours))
        return made[-1]

    yield one
    for behind in made:
        await behind.clear()


def program(
    folder: Path,
    *argv: str,
    environment: Mapping[str, str] | None = None,
    identity: Identity | None = None,
    nofile: int = 256,
    memlock: int = 65536,
) -> Program:
    return Program(
        argv=argv,
        environment=environment or {},
        working_directory=str(folder),
        identity=identity,
        nofile=nofile,
        memlock=memlock,
    )


def script(text: str) -> tuple[str, ...]:
    return ("/bin/sh", "-c", text)


def pairs(printed: bytes) -> dict[str, str]:
    """What `env -0` prints."""
    texts = [os.fsdecode(item) for item in printed.split(b"\0") if item]
    return dict(text.split("=", 1) for text in texts)


def proc(pid: int | str, file: str) -> bytes:
    return Path(f"/proc/{pid}/{file}").read_bytes()


def inode(path: Path) -> str:
    return str(path.stat().st_ino)


def files_of(pid: int) -> dict[str, str]:
    """The open ones, by descriptor."""
    return {file.name: str(file.readlink()) for file in Path(f"/proc/{pid}/fd").iterdir()}


async def reaped(pid: int) -> None:
    """Returns when a child that its owner has let go of was waited for."""
    held = Held.open(pid)
    await held.ended
    held.release()
    await asyncio.to_thread(os.waitpid, pid, 0)


# How it ends


@under_each_shell
@pytest.mark.parametrize("code", [37, 255])
async def test_the_exit_status_of_the_program_is_kept(spawn: Spawn, code: int) -> None:
    behind = spawn(*script(f"exit {code}"))
    behind.gate.open()
    assert await behind.ended() == (code, str(code))


@under_each_shell
@pytest.mark.parametrize("name", ["SEGV", "KILL", "XFSZ"])
async def test_the_signal_that_ended_the_program_is_kept_as_a_shell_reports_it(
    spawn: Spawn, name: str
) -> None:
    behind = spawn(*script(f"ulimit -c 0; kill -{name} $$"))
    behind.gate.open()
    expected = 128 + signal.Signals[f"SIG{name}"]
    assert await behind.ended() == (expected, str(expected))


@under_each_shell
async def test_a_program_that_has_gone_meanwhile_is_status_127(spawn: Spawn, tmp_path: Path) -> None:
    behind = spawn(str(tmp_path / "vllm"))
    behind.gate.open()
    assert await behind.ended() == (127, "127")


@under_each_shell
async def test_a_gate_that_is_shut_never_runs_the_program(spawn: Spawn, tmp_path: Path) -> None:
    behind = spawn("/usr/bin/touch", str(tmp_path / "ran"))
    behind.gate.shut()
    assert (await behind.words(), await behind.ended()) == (b"", (111, "closed"))
    assert not (tmp_path / "ran").exists()


@under_each_shell
@pytest.mark.parametrize("said", [b"go", b"gone\n"])
async def test_nothing_but_the_whole_word_opens_it(spawn: Spawn, said: bytes) -> None:
    behind = spawn("/bin/echo", "ran")
    pipe = behind.gate._child.stdin
    assert pipe is not None
    pipe.write(said)
    pipe.close()
    assert (await behind.words(), await behind.ended()) == (b"", (111, "closed"))


async def test_an_opened_gate_can_not_be_shut(spawn: Spawn) -> None:
    behind = spawn("/bin/echo", "ran")
    behind.gate.open()
    behind.gate.shut()
    behind.gate.open()
    assert (await behind.words(), await behind.ended()) == (b"ran\n", (0, "0"))


@under_each_shell
async def test_a_gate_that_was_killed_has_no_status(spawn: Spawn) -> None:
    behind = spawn("/bin/echo", "ran")
    behind.gate.process.send(signal.SIGKILL)
    assert await behind.ended() == (-signal.SIGKILL, "")
    behind.gate.open()  # too late, and no error: its watcher tells
    assert await behind.words() == b""


@under_each_shell
async def test_a_gate_that_is_killed_alone_leaves_the_program_and_no_status(spawn: Spawn) -> None:
    behind = spawn(*script("echo $$; exec sleep 1000"))
    behind.gate.open()
    engine = Held.open(int(await behind.word()))
    behind.gate.process.send(signal.SIGKILL)
    assert (await behind.ended(), engine.ended.done()) == ((-signal.SIGKILL, ""), False)
    engine.send(signal.SIGKILL)
    await engine.ended
    engine.release()
    assert behind.status == ""


@under_each_shell
async def test_signals_do_not_end_the_gate_while_the_program_runs(spawn: Spawn, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "cue")
    behind = spawn(*script("echo up; read -r code <cue; exit $code"))
    behind.gate.open()
    await behind.word()
    for ending in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGPIPE):
        behind.gate.process.send(ending)
    (tmp_path / "cue").write_text("7\n")
    assert await behind.ended() == (7, "7")


@under_each_shell
@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGHUP])
async def test_a_signal_never_makes_a_shut_gate_run_the_program(spawn: Spawn, ending: signal.Signals) -> None:
    behind = spawn("/bin/echo", "ran")
    behind.gate.process.send(ending)
    behind.gate.shut()
    assert await behind.words() == b""
    # one that comes before the shell has set its traps ends it; the program has not run either way
    assert await behind.ended() in {(111, "closed"), (-ending, "")}


@under_each_shell
async def test_a_program_that_kills_its_whole_group_does_not_reach_its_gate(spawn: Spawn) -> None:
    behind = spawn(*script("kill -KILL 0"))
    behind.gate.open()
    assert await behind.ended() == (137, "137")


@under_each_shell
async def test_the_status_is_written_into_room_that_was_taken_beforehand(spawn: Spawn) -> None:
    behind = spawn(*script("exit 255"))
    before = behind.status_file.stat()
    behind.gate.open()
    await behind.ended()
    after = behind.status_file.stat()
    assert (after.st_ino, after.st_size, after.st_blocks) == (before.st_ino, 16, before.st_blocks)
    assert behind.status_file.read_bytes() == b"255\n" + b" " * 11 + b"\n"


async def test_an_open_gate_outlives_its_owner(spawn: Spawn) -> None:
    behind = spawn(*script("echo $$; exec sleep 1000"))
    behind.gate.open()
    engine = int(await behind.word())
    gate_pid = behind.gate.process.pid
    behind.gate.release()
    os.kill(gate_pid, 0)
    os.kill(engine, signal.SIGTERM)
    await reaped(gate_pid)
    behind.gate._child.__del__()  # warns of a living child, unless it was let go
    assert behind.status == "143"


async def test_a_shut_gate_ends_with_its_owner(spawn: Spawn) -> None:
    behind = spawn("/bin/echo", "ran")
    gate_pid = behind.gate.process.pid
    behind.gate.release()
    await reaped(gate_pid)
    assert (await behind.words(), behind.status) == (b"", "closed")


# What the program is given

ARGUMENTS = (
    "", "*", "?", "-x", "--", "-", " ", "a b", "\ttab", "two\nlines\n", "'", '"', "\\", "\\n", "$HOME",
    "$(id)", "`id`", "~", "#", "!", "{a,b}", ";", "&", "|", ">x", "a=b", "%s", "é€😀", "\udcff\udc80",
    "\x01\x7f", "x" * 100_000,
)  # fmt: skip


@under_each_shell
async def test_arguments_arrive_to_the_byte(spawn: Spawn) -> None:
    printed = await spawn("/usr/bin/printf", "%s\\0", *ARGUMENTS).run()
    assert tuple(os.fsdecode(item) for item in printed.split(b"\0")[:-1]) == ARGUMENTS


async def test_a_program_whose_path_says_much_is_run(spawn: Spawn, tmp_path: Path) -> None:
    path = tmp_path / "a=b $HOME'\"\n*"
    path.write_text('#!/bin/sh\necho "$LD_DEBUG_OUTPUT"')
    path.chmod(0o700)
    assert await spawn(str(path), environment={"LD_DEBUG_OUTPUT": "late"}).run() == b"late\n"


ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/var/lib/llmgw",
    "EMPTY": "",
    "TWO_LINES": "one\ntwo\n",
    "QUOTES": "'\"\\$HOME `id` $(id)",
    "BYTES": "\udcff\udc80",
    "EQUALS": "a=b",
    "_private": "é€😀",
    "LONG": "x" * 100_000,
    # no names of a shell's
    "-S": "a b",
    "a.b": "dots",
    "1st": "digit",
    "with blank": "blank",
    "--": "dashes",
    "-": "dash",
    "é": "letter",
    "new\nline": "x\ny",
    "q'u\"o\\t$e${HOME}": "$HOME ${HOME} \" ' \\ \\c #",
    "#": "",
    "LLMGWD_LATE_0": "one",
    "LLMGWD_LATE_99": "two",
    "BASH_FUNC_echo%%": "() { exit 3; }",
}

NAMES = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="=\0"), min_size=1, max_size=8),
    st.text(st.sampled_from("aZ_0 -'\"\\${}#\n\t"), min_size=1, max_size=8),
    st.sampled_from(["LD_PRELOAD_", "BASHOPTS", "PWD", "HOME", "LLMGWD_LATE_0", "LLMGWD_LATE_1"]),
)
VALUES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)

# Names that shells set, read or change; what a gate might have called its own variables.
SHELLS_OWN = (
    "_", "PWD", "OLDPWD", "SHLVL", "IFS", "OPTIND", "OPTARG", "OPTERR", "PPID", "UID", "EUID", "LINENO",
    "RANDOM", "SRANDOM", "SECONDS", "EPOCHSECONDS", "EPOCHREALTIME", "HISTCMD", "GROUPS", "DIRSTACK",
    "PIPESTATUS", "FUNCNAME", "PS1", "PS2", "PS3", "PS4", "REPLY", "TMOUT", "COLUMNS", "LINES", "SHELL",
    "MAIL", "MAILPATH", "CDPATH", "HISTFILE", "ENV", "FCEDIT", "COPROC", "TIMEFORMAT", "GLOBIGNORE",
    "FIGNORE", "EXECIGNORE", "CHILD_MAX", "BASH", "BASHPID", "BASHOPTS", "BASH_ENV", "BASH_VERSION",
    "BASH_ARGV0", "BASH_COMPAT", "SHELLOPTS", "POSIXLY_CORRECT", "status", "word", "code", "gate",
    "argv", "name", "line",
)  # fmt: skip


@under_each_shell
async def test_the_environment_arrives_to_the_byte(spawn: Spawn) -> None:
    printed = await spawn("/usr/bin/env", "-0", environment=ENVIRONMENT).run()
    assert pairs(printed) == ENVIRONMENT


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.dictionaries(NAMES, VALUES, max_size=6))
def test_any_environment_is_put_together_again(environment: dict[str, str]) -> None:
    first, words = gate._split(program(Path("/"), "/usr/bin/env", environment=environment))
    done = subprocess.run([*words, "/usr/bin/env", "-0"], env=first, capture_output=True, check=True)
    assert pairs(done.stdout) == environment


@under_each_shell
@pytest.mark.parametrize("value", ["none of a shell's", "1", "noexec"])
async def test_no_variable_is_the_gates_or_its_shells(spawn: Spawn, value: str) -> None:
    environment = dict.fromkeys(SHELLS_OWN, value)
    printed = await spawn("/usr/bin/env", "-0", environment=environment).run()
    assert pairs(printed) == environment


@under_each_shell
async def test_an_empty_environment_is_empty(spawn: Spawn) -> None:
    assert await spawn("/usr/bin/env", "-0").run() == b""


@under_each_shell
async def test_what_a_loader_acts_upon_is_set_for_the_program_alone(spawn: Spawn, tmp_path: Path) -> None:
    hook = tmp_path / "hook"
    hook.write_text(f"echo $$ >> {tmp_path}/hooked\n")
    early = {"PATH": "/usr/bin", "CUDA_VISIBLE_DEVICES": "0"}
    late = {
        "LD_LIBRARY_PATH": "/opt/cuda/lib64",
        "LD_BIND_NOW": "1",
        "GLIBC_TUNABLES": "glibc.malloc.arena_max=4",
        "MALLOC_ARENA_MAX": "4",
        "GCONV_PATH": "/nowhere",
        "LOCPATH": "/nowhere",
        "BASH_ENV": str(hook),
        "ENV": str(hook),
        "SHELLOPTS": "noexec",
        "BASHOPTS": "extdebug",
        "PS4": "$(id)",
        "TMOUT": "1",
    }
    assert pairs(await spawn("/usr/bin/env", "-0", environment=early | late).run()) == early | late
    behind = spawn(*script("echo up; exec sleep 1000"), environment=early | late)
    behind.gate.open()
    await behind.word()
    found = pairs(proc(behind.gate.process.pid, "environ"))
    waiting = {name: value for name, value in found.items() if name.startswith("LLMGWD_LATE_")}
    assert (found, sorted(waiting.values())) == (early | waiting, sorted(late.values()))
    assert not (tmp_path / "hooked").exists()


async def test_no_value_can_be_read_in_a_list_of_processes(spawn: Spawn) -> None:
    environment = dict.fromkeys(("HF_TOKEN", "LD_LIBRARY_PATH", "odd.token", "-S"), "hf_secret")
    behind = spawn(*script("echo $$; exec sleep 1000"), environment=environment)
    behind.gate.open()
    engine = int(await behind.word())
    lines = (proc(behind.gate.process.pid, "cmdline"), proc(engine, "cmdline"))
    assert [b"hf_secret" in line for line in lines] == [False, False]


@under_each_shell
async def test_only_sigpipe_is_ignored(spawn: Spawn) -> None:
    def ignored(status: bytes) -> set[signal.Signals]:
        mask = next(int(line.split()[1], 16) for line in status.splitlines() if line.startswith(b"SigIgn"))
        return {name for name in signal.Signals if mask & 1 << name - 1}

    printed = await spawn("/bin/cat", "/proc/self/status").run()
    ours = ignored(proc("self", "status"))
    # Python ignores SIGXFSZ for itself
    assert ignored(printed) == (ours | {signal.SIGPIPE}) - {signal.SIGXFSZ}


@under_each_shell
async def test_it_has_the_null_device_one_stream_and_no_other_file(spawn: Spawn) -> None:
    inherited = os.open("/dev/zero", os.O_RDONLY)
    os.set_inheritable(inherited, True)
    behind = spawn(*script("echo $$; exec sleep 1000"))
    os.close(inherited)
    behind.gate.open()
    files = files_of(int(await behind.word()))
    stream = files["1"]
    assert files == {"0": "/dev/null", "1": stream, "2": stream}
    assert stream.startswith("socket:[")


@under_each_shell
async def test_it_leads_a_session_that_is_not_the_gates(spawn: Spawn) -> None:
    behind = spawn(*script("echo $$; exec sleep 1000"))
    behind.gate.open()
    engine, own = int(await behind.word()), behind.gate.process.pid
    sessions = (os.getsid(engine), os.getpgid(engine), os.getsid(own), os.getpgid(own), first_child(own))
    assert sessions == (engine, engine, own, own, engine)


async def test_it_works_in_its_directory_and_nobody_else_reads_what_it_makes(
    spawn: Spawn, tmp_path: Path
) -> None:
    printed = await spawn(*script("stat --format=%i .; umask")).run()
    assert printed.decode().split() == [inode(tmp_path), "0027"]


async def limits(behind: Behind) -> dict[int, tuple[int, int]]:
    behind.gate.open()
    engine = int(await behind.word())
    return {limit: resource.prlimit(engine, limit) for limit in RLIMITS}


async def test_limits_are_set(spawn: Spawn) -> None:
    behind = spawn(*script("echo $$; exec sleep 1000"), nofile=64, memlock=4096)
    assert await limits(behind) == {resource.RLIMIT_NOFILE: (64, 64), resource.RLIMIT_MEMLOCK: (4096, 4096)}


async def test_limits_that_may_not_be_raised_are_raised_as_far_as_they_may(spawn: Spawn) -> None:
    too_many = int(proc("sys", "fs/nr_open")) + 64  # refused to root, too
    behind = spawn(*script("echo $$; exec sleep 1000"), nofile=too_many, memlock=resource.RLIM_INFINITY)
    _, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    _, most_locked = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    found = await limits(behind)
    assert found[resource.RLIMIT_NOFILE] == (most_files, most_files)
    assert found[resource.RLIMIT_MEMLOCK] in {(-1, -1), (most_locked, most_locked)}


@needs_root
async def test_it_runs_as_its_user_with_the_groups_and_without_a_capability(spawn: Spawn) -> None:
    nobody = pwd.getpwnam("nobody")
    identity = Identity("nobody", nobody.pw_uid, 12345, (12345, 23456), "/", "/bin/false")
    printed = (await spawn("/bin/cat", "/proc/self/status", identity=identity).run()).decode()
    status = dict(line.split(":\t", 1) for line in printed.splitlines())
    assert {key: status[key].split() for key in ("Uid", "Gid", "Groups")} == {
        "Uid": [str(nobody.pw_uid)] * 4,
        "Gid": ["12345"] * 4,
        "Groups": ["12345", "23456"],
    }
    held = ("CapInh", "CapPrm", "CapEff", "CapAmb")
    assert {key: int(status[key], 16) for key in held} == dict.fromkeys(held, 0)


@needs_root
async def test_a_program_of_another_user_can_not_touch_its_gate_or_its_status(
    spawn: Spawn, tmp_path: Path
) -> None:
    nobody = pwd.getpwnam("nobody")
    identity = Identity("nobody", nobody.pw_uid, nobody.pw_gid, (nobody.pw_gid,), "/", "/bin/false")
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)
    attack = "kill -KILL $PPID; echo 0 1<>state/llmgw-shard-a.exits/engine-0; exit 9"
    behind = spawn(*script(attack), identity=identity)
    behind.gate.open()
    assert await behind.ended() == (9, "9")


# What can not be


def children() -> str:
    """Of this process; other tests may have some that live longer."""
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text()


async def test_a_working_directory_that_is_not_there_is_an_error_and_no_process(tmp_path: Path) -> None:
    before = children()
    ours, theirs = socket.socketpair()
    with ours, theirs, pytest.raises(FileNotFoundError):
        gate.spawn(program(tmp_path / "none", "/bin/true"), output=theirs, status=tmp_path / "x/engine")
    assert children() == before


async def test_a_gate_that_can_not_be_watched_is_an_error_and_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(pid: int) -> int:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(os, "pidfd_open", refuse)
    before = children()
    ours, theirs = socket.socketpair()
    with ours, theirs, pytest.raises(OSError, match="Too many open files"):
        gate.spawn(program(tmp_path, "/bin/true"), output=theirs, status=tmp_path / "x/engine")
    assert children() == before


@pytest.mark.parametrize("tool", ["setsid", "setpriv"])
def test_a_host_without_the_tools_says_which(tool: str, monkeypatch: pytest.MonkeyPatch) -> None:
    which = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name, **more: None if name == tool else which(name, **more))
    other = Identity("other", os.geteuid() + 1, 1, (1,), "/", "/bin/false")
    with pytest.raises(FileNotFoundError, match=rf"^{tool} \(util-linux\) is missing$"):
        gate._drop(other)


# The exit file


def test_a_fresh_exit_file_says_nothing_and_is_nobody_elses(tmp_path: Path) -> None:
    path = tmp_path / "state/llmgw-shard-a.exits/engine"
    make_status(path)
    modes = (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777)
    assert (read_status(path), modes) == ("", (0o600, 0o700))
    path.write_text("1\n")
    make_status(path)
    assert read_status(path) == ""


def test_an_exit_file_that_can_not_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    path = tmp_path / "file/llmgw-shard-a.exits/engine"
    with pytest.raises(StateNotSaved) as refused:
        make_status(path)
    assert refused.value.text == f"exit file {path}: Not a directory"


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b"0\n             \n", "0"),
        (b"255\n           \n", "255"),
        (b"closed\n        \n", "closed"),
        (b"closed\n", "closed"),
        (b" " * 15 + b"\n", ""),
        (b"", ""),
        (b"256\n", ""),
        (b"-1\n", ""),
        (b"1e1\n", ""),
        (b"go\n", ""),
        (b"\xff\xfe\n", ""),
        ("²\n".encode(), ""),
        (b"9" * 5000, ""),
        (b"\0" * 16, ""),
    ],
)
def test_a_status_is_never_guessed(tmp_path: Path, content: bytes, status: str) -> None:
    path = tmp_path / "engine"
    path.write_bytes(content)
    assert read_status(path) == status


def test_an_exit_file_that_can_not_be_read_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    assert [read_status(tmp_path / name) for name in ("none", "folder")] == ["", ""]
