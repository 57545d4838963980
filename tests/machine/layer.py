"""What is laid over the host's root to make a machine of it: the product, a name, what it starts."""

import io
import secrets
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path

from tests.machine.host import MachineError

TREE = Path(__file__).resolve().parents[2]
UNITS = "etc/systemd/system"

# What every boot would start, no test needs, and costs time or touches what belongs to the host's kernel.
# polkit is here because most tests are about root; one that is not takes MASKED - {"polkit.service"}.
MASKED = frozenset(
    {
        "dev-hugepages.mount",
        "getty.target",
        "kmod-static-nodes.service",
        "ldconfig.service",
        "modprobe@.service",
        "polkit.service",
        "proc-sys-fs-binfmt_misc.automount",
        "sys-fs-fuse-connections.mount",
        "sys-kernel-config.mount",
        "sys-kernel-debug.mount",
        "sys-kernel-tracing.mount",
        "systemd-ask-password-console.path",
        "systemd-ask-password-wall.path",
        "systemd-binfmt.service",
        "systemd-firstboot.service",
        "systemd-hwdb-update.service",
        "systemd-journal-catalog-update.service",
        "systemd-modules-load.service",
        "systemd-networkd.service",
        "systemd-pstore.service",
        "systemd-random-seed.service",
        "systemd-resolved.service",
        "systemd-sysctl.service",
        "systemd-sysusers.service",  # boot.sh has run it
        "systemd-timesyncd.service",
        "systemd-tmpfiles-setup-dev.service",
        "systemd-update-done.service",
        "systemd-update-utmp-runlevel.service",
        "systemd-update-utmp.service",
    }
)


@cache
def product() -> bytes:
    """What `make install` lays down, as a tar archive; made once a process. Raises MachineError."""
    buffer = io.BytesIO()
    with tempfile.TemporaryDirectory(prefix="llmgwd-stage-") as stage:
        made = subprocess.run(
            ["make", "--no-print-directory", "install", f"DESTDIR={stage}", "PREFIX=/usr"],
            cwd=TREE,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        if made.returncode != 0:
            raise MachineError(f"make install: {made.stdout}{made.stderr}")
        with tarfile.open(fileobj=buffer, mode="w") as archive:
            for path in sorted(Path(stage).rglob("*")):
                archive.add(path, path.relative_to(stage), recursive=False, filter=owned_by_root)
    return buffer.getvalue()


def layer(name: str, files: Mapping[str, str], enable: Collection[str], masked: Collection[str]) -> bytes:
    """The whole layer, as a tar archive. `files`: absolute path to text."""
    texts = {
        "etc/hostname": f"{name}\n",
        "etc/hosts": f"127.0.0.1 localhost\n::1 localhost\n127.0.1.1 {name}\n",
        "etc/machine-id": f"{secrets.token_hex(16)}\n",
        "etc/fstab": "",
    } | {path.removeprefix("/"): text for path, text in files.items()}
    links = {f"{UNITS}/{unit}": "/dev/null" for unit in masked} | {
        f"{UNITS}/multi-user.target.wants/{unit}": f"/usr/lib/systemd/system/{unit}" for unit in enable
    }
    buffer = io.BytesIO(product())
    with tarfile.open(fileobj=buffer, mode="a") as archive:
        for path, text in texts.items():
            entry = tarfile.TarInfo(path)
            entry.size = len(text.encode())
            entry.mtime = int(time.time())
            archive.addfile(entry, io.BytesIO(text.encode()))
        for path, target in links.items():
            entry = tarfile.TarInfo(path)
            entry.type = tarfile.SYMTYPE
            entry.linkname = target
            archive.addfile(entry)
    return buffer.getvalue()


def owned_by_root(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = "root"
    return entry
