"""The units as systemd reads them: no unknown key, no missing program, nothing that leaks into engines."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

TREE = Path(__file__).resolve().parents[1]

# What an engine does not get from the daemon that forked it, or is meant to get (the limits). Of the rest
# of systemd.exec(5) a process keeps nearly all in whatever cgroup it moves to: sandbox, umask, nice.
STAYS_WITH_THE_DAEMON = {
    "Type",
    "NotifyAccess",
    "ExecStart",
    "ExecReload",
    "Restart",
    "RestartSec",
    "RestartPreventExitStatus",
    "WatchdogSec",
    "TimeoutStopSec",
    "StateDirectory",
    "StateDirectoryMode",
    "LimitNOFILE",
    "LimitMEMLOCK",
    "OOMPolicy",
    "ManagedOOMPreference",
}

# Of systemd's own template, where no machine id is yet: in a container that never booted.
WITHOUT_MACHINE_ID = 'Failed to resolve unit specifiers in "journal/%m.%i"'


@pytest.fixture(scope="module")
def laid_down(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`make install` with a PREFIX where the programs that the units name really are; its lib/systemd."""
    root = tmp_path_factory.mktemp("root")
    subprocess.run(
        [
            "make",
            "--no-print-directory",
            "install",
            "DESTDIR=",
            f"PREFIX={root}/usr",
            f"SYSCONFDIR={root}/etc",
        ],
        cwd=TREE,
        capture_output=True,
        timeout=60,
        check=True,
    )
    return root / "usr/lib/systemd"


def verify(directory: Path, *arguments: str) -> str:
    """What systemd-analyze says of units in this directory, before the host's; empty if all is well."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    if os.geteuid() != 0 and not Path("/run/systemd").is_dir():
        pytest.skip("systemd-analyze makes /run/systemd where it is not there, which only root may")
    # Without --recursive-errors=yes systemd 252 prints an unknown key and calls it a success.
    result = subprocess.run(
        ["systemd-analyze", "--man=no", "--recursive-errors=yes", *arguments],
        env=os.environ | {"SYSTEMD_UNIT_PATH": f"{directory}:", "XDG_RUNTIME_DIR": str(directory)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    lines = (result.stdout + result.stderr).splitlines(keepends=True)
    ours = [line for line in lines if WITHOUT_MACHINE_ID not in line]
    return "".join(ours) if lines or result.returncode == 0 else f"status {result.returncode}"


def test_systemd_finds_nothing_wrong_with_the_systems_units(laid_down: Path) -> None:
    units = ("llmgwd.service", "llmgw.slice", "llmgw-engines.target", "systemd-journald@llmgw.service")
    assert verify(laid_down / "system", "verify", *units) == ""


def test_systemd_finds_nothing_wrong_with_the_users_units(laid_down: Path) -> None:
    assert verify(laid_down / "user", "--user", "verify", "llmgwd.service", "llmgw.slice") == ""


def test_a_wrong_key_would_be_found(laid_down: Path) -> None:
    dropin = laid_down / "system/systemd-journald@llmgw.service.d/wrong.conf"
    dropin.write_text("[Service]\nFileDescriptorStoreMaximum=1\n")
    try:
        said = verify(laid_down / "system", "verify", "systemd-journald@llmgw.service")
    finally:
        dropin.unlink()
    assert "Unknown key" in said
    assert "'FileDescriptorStoreMaximum'" in said


@pytest.mark.parametrize("unit", ["llmgwd.service", "user/llmgwd.service"])
def test_no_directive_of_the_daemon_leaks_into_engines(unit: str) -> None:
    text = (TREE / "units" / unit).read_text()
    service = text.partition("[Service]")[2].partition("[Install]")[0]
    keys = {line.partition("=")[0] for line in service.splitlines() if line and not line.startswith("#")}
    assert keys - STAYS_WITH_THE_DAEMON == set()
