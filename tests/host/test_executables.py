"""Programs and directories that a shard may name, and why one of them will not do."""

import os
import socket
import stat
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from llmgwd.host.executables import PATH, check_directory, resolve
from llmgwd.host.identity import Identity
from llmgwd.model.errors import EngineUnavailable

SHELL = Path(os.path.realpath("/bin/sh"))
OTHER = Identity("other", 54321, 54321, (54321, 54322), "/", "/bin/false")
ACL = "system.posix_acl_access"

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can ask what somebody else may run")


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """One that everybody can reach; pytest's own are closed."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


def put(path: Path, content: bytes | str = "#!/bin/sh\n", mode: int = 0o755) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    path.chmod(mode)
    return str(path)


def refusal(executable: str, path: str = PATH, identity: Identity | None = None) -> str:
    with pytest.raises(EngineUnavailable) as refused:
        resolve(executable, path=path, identity=identity)
    return refused.value.text


def refusal_of_directory(folder: Path, identity: Identity | None = None) -> str:
    with pytest.raises(EngineUnavailable) as refused:
        check_directory(str(folder), identity=identity)
    return refused.value.text


# Where it is


def test_a_bare_name_is_looked_for_in_path(tmp_path: Path) -> None:
    for folder in ("b", "c"):
        put(tmp_path / folder / "vllm")
    path = f"{tmp_path}/a:{tmp_path}/b:{tmp_path}/c"
    assert resolve("vllm", path=path, identity=None) == str(tmp_path / "b/vllm")


@pytest.mark.parametrize("path", ["/nowhere:/nor/here", ""])
def test_a_name_that_is_not_in_path_is_named_with_it(path: str) -> None:
    assert refusal("vllm", path=path) == f"executable vllm not found in {path}"


def test_an_absolute_path_is_taken_as_it_stands(tmp_path: Path) -> None:
    there = put(tmp_path / "bin/vllm")
    (tmp_path / "link").symlink_to(there)
    for path in (there, str(tmp_path / "link"), "/bin/sh"):
        assert resolve(path, path="/nowhere", identity=None) == path


def test_a_relative_path_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "bin/vllm")
    monkeypatch.chdir(tmp_path)
    assert refusal("bin/vllm") == "executable bin/vllm is not an absolute path"
    assert refusal("./bin/vllm") == "executable ./bin/vllm is not an absolute path"
    assert refusal("vllm", path="bin") == "executable vllm is not an absolute path"


# What it is


def test_one_that_is_not_there_is_named(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "none")
    put(tmp_path / "file")
    for name, why in (
        ("none", "No such file or directory"),
        ("link", "No such file or directory"),
        ("file/vllm", "Not a directory"),
        ("x" * 256, "File name too long"),
    ):
        assert refusal(str(tmp_path / name)) == f"executable {tmp_path / name}: {why}"


def test_what_is_no_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o755)
    (tmp_path / "folder").mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        for path in (*tmp_path.iterdir(), Path("/dev/null")):
            assert refusal(str(path)) == f"executable {path} is no regular file"


def test_a_file_without_the_permission_is_refused(tmp_path: Path) -> None:
    path = put(tmp_path / "vllm", mode=0o644)
    assert refusal(path) == f"executable {path} has no execute permission"
    assert refusal("vllm", path=str(tmp_path)) == f"executable {path} has no execute permission"


def elf(*, bits: int = 0, order: int = 0, machine: bytes = b"") -> bytes:
    """The head of this machine's own shell, with something else in its place."""
    head = bytearray(SHELL.read_bytes()[:256])
    head[4] ^= bits
    head[5] ^= order
    head[18:20] = machine or head[18:20]
    return bytes(head)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"echo hello\n",
        b"#",
        b" #!/bin/sh\n",
        b"MZ\x90\0",
        b"\x7fELF",
        b"PK\x03\x04",
        "\ufeff#!/bin/sh\n".encode(),
        elf(machine=b"\xf3\xff"),
        elf(bits=3),
        elf(order=3),
    ],
)
def test_what_the_kernel_would_not_take_is_refused_because_a_shell_would(
    tmp_path: Path, content: bytes
) -> None:
    path = put(tmp_path / "vllm", content)
    assert refusal(path) == f"executable {path} is neither a program of this machine nor a script with #!"


def test_a_program_of_this_machine_is_taken(tmp_path: Path) -> None:
    path = put(tmp_path / "vllm", elf())
    assert resolve(path, path=PATH, identity=None) == path


@pytest.mark.parametrize(
    "line", ["#!/bin/sh", "#!/bin/sh -e\n", "#! /bin/sh\n", "#!\t/bin/sh\t-e\n", "#!/usr/bin/env vllm\n"]
)
def test_a_script_whose_interpreter_is_there_is_taken(tmp_path: Path, line: str) -> None:
    path = put(tmp_path / "vllm", line)
    assert resolve(path, path=PATH, identity=None) == path


def test_a_script_whose_interpreter_is_not_there_is_refused(tmp_path: Path) -> None:
    put(tmp_path / "plain", mode=0o644)
    for interpreter in ("/opt/venv/bin/python", str(tmp_path), str(tmp_path / "plain"), "/bin/sh\r"):
        path = put(tmp_path / "vllm", f"#!{interpreter}\nimport vllm\n")
        assert refusal(path) == f"executable {path}: its interpreter {interpreter} is not there"


@pytest.mark.parametrize("line", ["#!", "#!\n", "#!  \t\nfoo"])
def test_a_script_that_names_no_interpreter_is_refused(tmp_path: Path, line: str) -> None:
    path = put(tmp_path / "vllm", line)
    assert refusal(path) == f"executable {path}: its first line names no interpreter"


# Who may


def test_what_everybody_may_run_another_user_may(open_folder: Path) -> None:
    path = put(open_folder / "vllm")
    assert resolve(path, path=PATH, identity=OTHER) == path
    check_directory(str(open_folder), identity=OTHER)


def test_oneself_is_asked_for_as_the_daemon_is(tmp_path: Path) -> None:
    oneself = Identity("me", os.geteuid(), os.getegid(), (os.getegid(),), "/", "/bin/sh")
    path = put(tmp_path / "vllm", mode=0o700)
    assert resolve(path, path=PATH, identity=oneself) == path
    check_directory(str(tmp_path), identity=oneself)


@needs_root
def test_what_another_user_may_not_run_is_refused(open_folder: Path) -> None:
    for mode in (0o700, 0o744, 0o710):
        path = put(open_folder / "vllm", mode=mode)
        assert refusal(path, identity=OTHER) == f"executable {path} may not be run by user other"


@needs_root
def test_what_another_user_can_not_reach_is_refused(open_folder: Path) -> None:
    path = put(open_folder / "home/bin/vllm")
    (open_folder / "home").chmod(0o700)
    assert refusal(path, identity=OTHER) == f"executable {path} may not be run by user other"
    assert refusal_of_directory(open_folder / "home/bin", OTHER) == (
        f"working directory {open_folder}/home/bin may not be entered by user other"
    )


@needs_root
@pytest.mark.parametrize("closed", ["home", "bin"])
def test_a_link_and_what_it_leads_to_have_to_be_reached(open_folder: Path, closed: str) -> None:
    put(open_folder / "bin/vllm")
    (open_folder / "home").mkdir()
    link = open_folder / "home/vllm"
    link.symlink_to("../bin/vllm")
    assert resolve(str(link), path=PATH, identity=OTHER) == str(link)
    (open_folder / closed).chmod(0o700)
    assert refusal(str(link), identity=OTHER) == f"executable {link} may not be run by user other"


@needs_root
def test_an_interpreter_that_another_user_can_not_reach_is_named(open_folder: Path) -> None:
    python = put(open_folder / "home/python")
    path = put(open_folder / "vllm", f"#!{python}\n")
    assert resolve(path, path=PATH, identity=OTHER) == path
    (open_folder / "home").chmod(0o700)
    assert refusal(path, identity=OTHER) == (
        f"executable {path}: its interpreter {python} may not be run by user other"
    )


@needs_root
@pytest.mark.parametrize(
    ("owner", "group", "mode", "may"),
    [
        (OTHER.uid, 0, 0o100, True),
        (OTHER.uid, 0, 0o077, False),
        (0, OTHER.groups[1], 0o010, True),
        (0, OTHER.groups[1], 0o701, False),
        (0, 0, 0o001, True),
        (0, 0, 0o770, False),
    ],
)
def test_owner_group_and_others_are_told_apart(
    open_folder: Path, owner: int, group: int, mode: int, may: bool
) -> None:
    path = put(open_folder / "vllm")
    os.chown(path, owner, group)
    Path(path).chmod(mode)
    if may:
        assert resolve(path, path=PATH, identity=OTHER) == path
    else:
        assert refusal(path, identity=OTHER).startswith(f"executable {path} ")


@needs_root
def test_an_access_control_list_is_heeded(open_folder: Path) -> None:
    path = put(open_folder / "vllm", mode=0o750)
    entries = ((0x01, 7, -1), (0x02, 5, OTHER.uid), (0x04, 5, -1), (0x10, 5, -1), (0x20, 0, -1))
    acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *entry) for entry in entries)
    try:
        os.setxattr(path, ACL, acl)
    except OSError as error:
        pytest.skip(f"no access control lists in {open_folder}: {error.strerror}")
    assert resolve(path, path=PATH, identity=OTHER) == path


# Directories


def test_a_working_directory_has_to_be_one(tmp_path: Path) -> None:
    put(tmp_path / "file")
    for name in ("none", "file", "file/below"):
        assert refusal_of_directory(tmp_path / name) == (
            f"working directory {tmp_path / name} does not exist or is no directory"
        )


def test_a_working_directory_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    check_directory(str(tmp_path / "link"), identity=None)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may enter every directory")
def test_a_working_directory_that_the_daemon_may_not_enter_is_refused(tmp_path: Path) -> None:
    (tmp_path / "closed/inner").mkdir(parents=True)
    (tmp_path / "closed").chmod(stat.S_IRUSR)
    assert refusal_of_directory(tmp_path / "closed") == (
        f"working directory {tmp_path}/closed may not be entered by user {os.geteuid()}"
    )
    assert refusal_of_directory(tmp_path / "closed/inner") == (
        f"working directory {tmp_path}/closed/inner does not exist or is no directory"
    )
    (tmp_path / "closed").chmod(0o700)
