"""What this host must have for a machine to boot on it."""

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

PROGRAMS = (
    "systemd-nspawn",
    "systemd-sysusers",
    "unshare",
    "nsenter",
    "setpriv",
    "ip",
    "mountpoint",
    "tar",
    "make",
)


class MachineError(Exception):
    """A machine cannot be made, booted or removed; says what its console said."""


@cache
def cgroup2_mount() -> Path:
    """Where cgroup v2 is mounted (proc_pid_mountinfo(5)). Raises MachineError."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        if after.split()[0] == "cgroup2":
            return Path(before.split()[4])
    raise MachineError("no cgroup2 file system is mounted here")


@cache
def what_is_missing() -> str:
    """Why no machine can boot here, in a few words; empty when one can."""
    if os.geteuid() != 0:
        return "needs root"
    for program in PROGRAMS:
        if shutil.which(program) is None:
            return f"{program} is not installed"
    try:
        mount = cgroup2_mount()
    except MachineError as error:
        return str(error)
    if not os.access(mount, os.W_OK):
        return f"{mount} cannot be written to"
    mounts_a_file_system = ("mount", "-t", "tmpfs", "tmpfs", "/mnt")
    tried = subprocess.run(
        ["unshare", "--mount", "--pid", "--net", "--fork", "--propagation", "private", *mounts_a_file_system],
        capture_output=True,
        text=True,
        timeout=10,
        check=False,
    )
    return "" if tried.returncode == 0 else f"cannot have namespaces of its own: {tried.stderr.strip()}"
