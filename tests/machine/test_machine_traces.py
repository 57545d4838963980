"""Nothing of a machine stays on the host, however it ends and however its parent ends."""

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.machine.host import MachineError, cgroup2_mount
from tests.machine.layer import TREE
from tests.machine.machine import Machine
from tests.machine.waiting import wait_for


def mount_namespace(pid: int) -> str:
    return os.readlink(f"/proc/{pid}/ns/mnt")


def processes_in(namespaces: set[str]) -> list[str]:
    """Every process of the host that is in one of these mount namespaces."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                if mount_namespace(int(process.name)) in namespaces:
                    found.append(f"{process.name} {(process / 'comm').read_text().strip()}")
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                pass  # has ended since it was listed, or is the host's first process
    return found


def places_of(machine: Machine) -> list[Path]:
    """What bears the machine's name where systemd-nspawn and machined leave things on a host."""
    shared = (
        "/tmp",
        "/var/tmp",
        "/run",
        "/run/systemd/nspawn",
        "/run/systemd/machines",
        "/var/log/journal",
        "/var/lib/machines",
    )
    return [path for place in shared for path in Path(place).glob(f"*{machine.name}*")]  # fmt: skip


def test_nothing_is_left_of_a_machine() -> None:
    mounts = Path("/proc/self/mountinfo").read_text()
    with Machine("traceless") as machine:
        assert machine.keeper is not None
        namespaces = {mount_namespace(machine.leader), mount_namespace(machine.keeper.pid)}
        machine.run(
            ["systemd-run", "--quiet", "--scope", "--", "sh", "-c", "setsid -f sleep 86397 >/dev/null 2>&1"]
        )
        machine.run(["systemctl", "start", "llmgw.slice"])
        assert len(processes_in(namespaces)) > 4
        assert machine.cgroup.exists()
        assert Path("/proc/self/mountinfo").read_text() == mounts
        assert places_of(machine) == []
    assert (processes_in(namespaces), places_of(machine)) == ([], [])
    # In every hierarchy, where the host has several.
    assert list(Path("/sys/fs/cgroup").glob(f"**/{machine.cgroup.name}")) == []
    assert machine not in Machine.running


def test_a_machine_that_powered_itself_off_is_removed_as_well() -> None:
    with Machine("goodbye") as machine:
        namespace = mount_namespace(machine.leader)
        machine.run(["systemctl", "--no-block", "poweroff"])
        machine.wait_for("it is gone", lambda: not Path(f"/proc/{machine.leader}").exists())
    assert (processes_in({namespace}), machine.cgroup.exists()) == ([], False)


PARENT = """
    from tests.machine.machine import Machine
    with Machine("orphan") as machine:
        print(machine.leader, machine.keeper.pid, machine.cgroup, flush=True)
        input()
"""


@pytest.mark.parametrize(
    "number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name
)
def test_a_machine_ends_with_the_process_that_booted_it(number: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(PARENT)],
        cwd=TREE,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as parent:
        assert parent.stdout is not None
        leader, keeper, cgroup = parent.stdout.readline().split()
        namespaces = {mount_namespace(int(leader)), mount_namespace(int(keeper))}
        parent.send_signal(number)
    wait_for("nothing of it is left", lambda: not processes_in(namespaces) and not Path(cgroup).exists())


def test_a_machine_ends_even_if_the_shell_that_keeps_it_was_killed() -> None:
    with Machine("forsaken") as machine:
        assert machine.keeper is not None
        namespaces = {mount_namespace(machine.leader), mount_namespace(machine.keeper.pid)}
        machine.keeper.kill()
    wait_for("nothing of it is left", lambda: not processes_in(namespaces))
    assert not machine.cgroup.exists()


def test_a_machine_that_cannot_boot_says_why_and_leaves_nothing() -> None:
    machine = Machine("stillborn", network=["--no-such-option"])
    with (
        pytest.raises(MachineError, match=r"stillborn ended while it booted: [^$]*--no-such-option"),
        machine,
    ):
        pytest.fail("booted")
    assert not machine.cgroup.exists()


def test_a_machine_that_is_not_up_in_time_is_removed() -> None:
    machine = Machine("slow", boot_timeout_s=0.05)
    with pytest.raises(MachineError, match=r"^slow is not up after 0.05 s: "), machine:
        pytest.fail("booted")
    assert not machine.cgroup.exists()


def test_a_machine_whose_parent_dies_while_it_boots_ends_as_well() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", "from tests.machine.machine import Machine\nMachine('embryo').boot()"],
        cwd=TREE,
    ) as parent:
        marked = wait_for(
            "its cgroup is there", lambda: list(cgroup2_mount().glob("llmgwd-machine-embryo-*"))
        )
        parent.kill()
    wait_for("its cgroup is gone", lambda: not marked[0].exists())
