"""The machines that other tests boot: what they are, and that nothing of them stays."""

import subprocess
import textwrap
from pathlib import Path

import pytest

from tests.machine.conftest import Boot
from tests.machine.layer import TREE
from tests.machine.machine import TREE_INSIDE, CommandError, Machine, MachineError

CAP_SYS_TIME = 1 << 25  # capabilities(7)
BOOTED_STATES = {"running", "degraded"}


def test_a_machine_boots_into_a_state_that_has_settled(shared_machine: Machine) -> None:
    state = shared_machine.run(["systemctl", "is-system-running", "--wait"], check=False).stdout.strip()
    assert state in BOOTED_STATES


def test_a_command_returns_output_error_and_status(shared_machine: Machine) -> None:
    result = shared_machine.run(["sh", "-c", "cat; echo bad >&2; exit 7"], input="né\n", check=False)
    assert (result.stdout, result.stderr, result.returncode) == ("né\n", "bad\n", 7)


def test_a_failed_command_says_which_and_what_it_printed(shared_machine: Machine) -> None:
    with pytest.raises(CommandError) as caught:
        shared_machine.run(["sh", "-c", "echo out; echo bad >&2; exit 7"])
    command = "['sh', '-c', 'echo out; echo bad >&2; exit 7']"
    assert str(caught.value) == f"{command} on shared ended with 7\nout\nbad"


def test_a_command_sees_a_clean_environment_and_what_was_asked_for(shared_machine: Machine) -> None:
    printed = shared_machine.run(["env"], environment={"ASKED": "for"}).stdout
    names = {line.partition("=")[0] for line in printed.splitlines()}
    assert names - {"PWD", "SHLVL", "OLDPWD", "_"} == {
        "ASKED",
        "HOME",
        "LANG",
        "PATH",
        "SYSTEMD_COLORS",
        "TERM",
    }


def test_a_command_runs_as_the_user_that_was_asked_for(shared_machine: Machine) -> None:
    ids = shared_machine.run(["sh", "-c", "id -un; id -gn; id -Gn"], user="llmgw").stdout.split()
    capabilities = shared_machine.run(["grep", "CapEff", "/proc/self/status"], user="llmgw").stdout.split()
    assert (ids, capabilities) == (["llmgw"] * 3, ["CapEff:", "0" * 16])


def test_a_user_that_the_machine_lacks_is_named(shared_machine: Machine) -> None:
    with pytest.raises(MachineError, match=r"^shared has no user nemo$"):
        shared_machine.run(["true"], user="nemo")


def test_a_command_belongs_to_the_machines_own_cgroup_tree(shared_machine: Machine) -> None:
    lines = shared_machine.run(["cat", "/proc/self/cgroup"]).stdout.splitlines()
    assert [line for line in lines if line.startswith("0::")] == ["0::/commands"]


def test_a_command_past_its_deadline_is_killed_inside_too(shared_machine: Machine) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        shared_machine.run(["sleep", "86399"], timeout_s=0.2)
    shared_machine.wait_for("no sleep is left", lambda: not sleepers(shared_machine, "86399"))


def test_a_command_beside_the_test_ends_with_its_block(shared_machine: Machine) -> None:
    with shared_machine.popen(["sh", "-c", "read word; echo got $word; exec sleep 86398"]) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("this\n")
        process.stdin.flush()
        assert process.stdout.readline() == "got this\n"
        shared_machine.wait_for("it sleeps", lambda: sleepers(shared_machine, "86398"))
    shared_machine.wait_for("no sleep is left", lambda: not sleepers(shared_machine, "86398"))


def sleepers(machine: Machine, seconds: str) -> list[str]:
    return machine.run(["pgrep", "--full", f"^sleep {seconds}$"], check=False).stdout.split()


def test_waiting_in_vain_says_for_what(shared_machine: Machine) -> None:
    with pytest.raises(TimeoutError, match=r"^not within 0.1 s: a miracle on shared; last: \[\]$"):
        shared_machine.wait_for("a miracle", list, timeout_s=0.1)


def test_what_make_install_lays_down_is_installed(shared_machine: Machine) -> None:
    version = (
        "from importlib.metadata import version; import llmgwd; print(version('llmgwd'), llmgwd.__file__)"
    )
    printed = shared_machine.run(["/usr/bin/python3", "-P", "-c", version]).stdout.split()
    owners = shared_machine.run(
        ["stat", "--format=%U:%G %a %n", "/var/lib/llmgw", "/etc/llmgwd/env.d"]
    ).stdout
    assert printed[0] == "0.1.0"
    assert printed[1].startswith("/usr/lib/python3")
    assert shared_machine.path("/usr/lib/systemd/system/llmgwd.service").exists()
    assert owners == "llmgw:llmgw 750 /var/lib/llmgw\nroot:root 700 /etc/llmgwd/env.d\n"


def test_the_daemon_is_installed_and_not_started(shared_machine: Machine) -> None:
    states = shared_machine.run(["systemctl", "is-enabled", "llmgwd.service"], check=False).stdout
    assert states == "disabled\n"


def test_the_tree_can_be_read_and_not_written(shared_machine: Machine) -> None:
    project = shared_machine.run(["cat", f"{TREE_INSIDE}/pyproject.toml"], user="llmgw").stdout
    refused = shared_machine.run(["touch", f"{TREE_INSIDE}/pyproject.toml"], check=False)
    assert (project, refused.returncode) == ((TREE / "pyproject.toml").read_text(), 1)


def test_neither_the_machine_nor_a_command_may_set_the_clock(shared_machine: Machine) -> None:
    for process in ("1", "self"):
        status = shared_machine.run(["grep", "CapBnd", f"/proc/{process}/status"]).stdout
        assert int(status.split()[1], 16) & CAP_SYS_TIME == 0, process


def test_the_engines_journal_is_a_namespace_of_its_own(machine: Machine) -> None:
    machine.run(["systemctl", "start", "llmgw.slice"])
    machine.run(["systemd-run", "--quiet", "--wait", "--property=LogNamespace=llmgw", "echo", "of an engine"])
    machine.run(["logger", "--tag=host", "of the host"])
    assert "of an engine\n" in machine.journal("--namespace=llmgw", "--output=cat")
    assert "of an engine" not in machine.journal("--output=cat", "--identifier=echo")
    report = machine.report()
    assert ("of an engine" in report, "of the host" in report) == (True, True)


def test_files_are_there_before_the_units_that_start_at_boot(boot: Boot) -> None:
    unit = "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=cat /etc/llmgwd/llmgwd.toml.d/test.toml\n"
    node = boot(
        enable=["test.service"],
        files={
            "/usr/lib/systemd/system/test.service": unit,
            "/etc/llmgwd/llmgwd.toml.d/test.toml": "# laid down\n",
        },
    )
    assert node.run(["systemctl", "is-active", "test.service"]).stdout == "active\n"
    assert node.journal("--unit=test.service", "--output=cat", "--identifier=cat") == "# laid down\n"


def test_two_machines_are_two(boot: Boot) -> None:
    nodes = [boot("node-a"), boot("node-b")]
    nodes[0].path("/root/only-here").write_text("a")
    for what in (
        "hostname",
        "cat /etc/machine-id",
        "cat /proc/sys/kernel/random/boot_id",
        "readlink /proc/self/ns/net",
    ):
        first, second = (node.run(what.split()).stdout for node in nodes)
        assert first != second, what
    assert [node.path("/root/only-here").exists() for node in nodes] == [True, False]
    assert not Path("/root/only-here").exists()


ON_A_SYSTEMD_HOST = """
    from tests.machine.machine import Machine
    with Machine("inner") as machine:
        print(machine.run(["cat", "/opt/of-the-host"]).stdout.strip())
        print(machine.run(["systemctl", "is-active", "multi-user.target"]).stdout.strip())
        print(machine.cgroup)
    print(machine.cgroup.exists())
"""


def test_a_machine_boots_on_a_systemd_host_with_more_than_one_file_system(machine: Machine) -> None:
    """The outer machine stands for the ordinary host: systemd is its first process, cgroups are v2 only."""
    if subprocess.check_output(["stat", "--file-system", "--format=%T", "/"], text=True) == "overlayfs\n":
        pytest.skip("the root is an overlay, as a container's, and the kernel stacks only two of them")
    machine.run(["mount", "-t", "tmpfs", "tmpfs", "/opt"])
    machine.run(["sh", "-c", "echo here > /opt/of-the-host"])
    program = textwrap.dedent(ON_A_SYSTEMD_HOST)
    environment = {"PYTHONPATH": TREE_INSIDE, "PYTHONDONTWRITEBYTECODE": "1"}
    ran = machine.run(["/usr/bin/python3", "-c", program], environment=environment, timeout_s=90)
    seen, state, cgroup, left = ran.stdout.splitlines()
    assert (seen, state, left) == ("here", "active", "False")
    assert cgroup.startswith("/sys/fs/cgroup/llmgwd-machine-inner-")
