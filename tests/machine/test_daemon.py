"""The daemon among others: a second one, a bus that restarts, a configuration that changes."""

import re
from pathlib import Path

import pytest

from tests.machine.node import CONFIG, CONFIGURED, DAEMON, Node, Refused
from tests.machine.specs import engine, serving

BAD = "/etc/llmgwd/llmgwd.toml.d/zz-bad.toml"
PROPERTIES = "org.freedesktop.DBus.Properties"


def engines(node: Node) -> list[str]:
    found = node.call("Get", "ss", "org.llmgw.Node1.Manager", "Engines", interface=PROPERTIES)
    return [str(name) for name in found]


def test_a_second_daemon_says_why_it_ends_and_leaves_the_first_alone(node: Node) -> None:
    ready, daemon = node.started("a", command=engine()), node.daemon_pid()
    second = node.machine.run(["/usr/bin/llmgwd"], check=False)
    assert second.returncode == 1
    assert re.fullmatch(r"\S+ \S+ CRITICAL another llmgwd works in /var/lib/llmgwd\n", second.stderr), second
    assert (node.shard("a"), node.daemon_pid()) == (ready, daemon)


def test_a_second_daemon_with_records_of_its_own_finds_the_name_taken_and_ends(node: Node) -> None:
    ready = node.started("a", command=engine())
    hidden = "mount -t tmpfs tmpfs /var/lib/llmgwd && exec /usr/bin/llmgwd"
    second = node.machine.run(["unshare", "--mount", "sh", "-c", hidden], check=False)
    said = second.stderr.splitlines()[-1]
    assert (second.returncode, said.partition(" CRITICAL ")[2]) == (
        1,
        "org.llmgw.Node1 is owned by another llmgwd",
    )
    assert node.shard("a") == ready


def test_a_restart_of_the_bus_is_survived_by_daemon_engines_and_streams(node: Node) -> None:
    before, daemon = node.started("a", **serving(8100)), node.daemon_pid()
    with node.reader(8100) as stream:
        node.systemctl("restart", "dbus")
        node.machine.wait_for("the name is back", lambda: is_there(node))
        assert (node.daemon_pid(), node.shard("a") | {"Health": ""}) == (daemon, before | {"Health": ""})
        node.started("b", command=engine())
        outcome = stream.communicate()[0]
    assert '"cut": false' in outcome
    node.kill(before["Pid"])
    assert node.wait_state("a", "failed")["ExitSignal"] == "SIGKILL"
    node.systemctl("stop", "llmgw-shard-b.scope")
    assert node.wait_state("b", "stopped")["Reason"] == "stopped by systemd"


def is_there(node: Node) -> bool:
    try:
        node.shards()
    except Refused:
        return False
    return True


def test_starts_in_the_middle_of_which_the_bus_restarts_come_to_their_end(node: Node) -> None:
    with node.machine.popen(["sh", "-c", "read _; systemctl restart dbus; echo done"]) as restart:
        assert restart.stdin is not None
        assert restart.stdout is not None
        for number in range(10):
            node.start(f"n{number}", command=["/usr/bin/sleep", "1000"])
            if number == 5:
                restart.stdin.write("\n")
                restart.stdin.flush()
                assert restart.stdout.readline() == "done\n"
                node.machine.wait_for("the name is back", lambda: is_there(node))
    ready = [node.wait_state(f"n{number}", "ready", timeout_s=60) for number in range(10)]
    assert [len(node.processes(shard)) for shard in ready] == [2] * 10


def test_an_engine_that_ends_while_there_is_no_bus_is_told_afterwards(node: Node) -> None:
    ready, daemon = node.started("a", **serving(8100)), node.daemon_pid()
    node.systemctl("stop", "dbus.socket", "dbus.service")
    try:
        node.kill(ready["Pid"])
    finally:
        node.systemctl("start", "dbus.socket", "dbus.service")
    node.machine.wait_for("the name is back", lambda: is_there(node))
    failed = node.wait_state("a", "failed")
    assert (failed["Reason"], node.daemon_pid()) == ("engine was killed by SIGKILL", daemon)


@pytest.fixture
def bad(node: Node) -> Path:
    return node.machine.path(BAD)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[agent]\nlog_linez = 3\n", f"{BAD}: agent.log_linez: unknown key, did you mean log_lines?"),
        ('[agent]\nlog_lines = "3"\n', f"{BAD}: agent.log_lines: got '3', takes an integer"),
        ("[agent\n", f"{BAD}: "),
    ],
)
def test_a_bad_configuration_changes_nothing_and_is_named(
    node: Node, bad: Path, text: str, told: str
) -> None:
    bad.write_text(text + "[engines.command]\nenabled = false\n")
    try:
        with pytest.raises(Refused) as refusal:
            node.call("Reload")
        assert str(refusal.value).startswith(f"InvalidConfig: {told}")
        reload = node.machine.run(["systemctl", "reload", DAEMON], check=False)
        assert (reload.returncode != 0, "command" in engines(node)) == (True, True)
        node.systemctl("kill", "--signal=HUP", "--kill-who=main", DAEMON)
        node.machine.wait_for(
            "the journal says why",
            lambda: [
                e
                for e in node.log("PRIORITY=3")
                if f"not changed: InvalidConfig: {told}" in str(e["MESSAGE"])
            ],
        )
        node.started("a", command=engine())
    finally:
        bad.unlink()


@pytest.mark.parametrize("how", ["Reload", "systemctl reload", "SIGHUP"])
def test_a_good_configuration_is_in_force_for_shards_from_then_on(node: Node, how: str) -> None:
    config = node.machine.path(CONFIG)
    ready, daemon = node.started("a", command=engine()), node.daemon_pid()
    config.write_text(CONFIGURED.replace("enabled = true", "enabled = false"))
    try:
        reload(node, how)
        node.machine.wait_for("it is in force", lambda: "command" not in engines(node))
        with pytest.raises(Refused, match=r"^InvalidSpec: engine: command is not enabled"):
            node.start("b", command=engine())
        assert (node.shard("a"), node.daemon_pid()) == (ready, daemon)
    finally:
        config.write_text(CONFIGURED)
        reload(node, how)
    node.machine.wait_for("it is in force", lambda: "command" in engines(node))
    node.machine.wait_for("it is ready", lambda: node.daemon_status() == "1 shard: 1 ready")


def reload(node: Node, how: str) -> None:
    if how == "Reload":
        node.call("Reload")
    elif how == "SIGHUP":
        node.systemctl("kill", "--signal=HUP", "--kill-who=main", DAEMON)
    else:
        node.systemctl("reload", DAEMON)


def test_a_daemon_with_a_bad_configuration_says_so_and_comes_when_it_is_mended(node: Node, bad: Path) -> None:
    ready = node.started("a", command=engine())
    with node.without_daemon():
        bad.write_text("[agent]\nlog_linez = 3\n")
        second = node.machine.run(["/usr/bin/llmgwd"], check=False)
        bad.unlink()
    told = f"InvalidConfig: {BAD}: agent.log_linez: unknown key, did you mean log_lines?"
    assert (second.returncode, second.stderr.strip().partition(" CRITICAL ")[2]) == (78, told)
    assert node.shard("a")["Pid"] == ready["Pid"]


def test_a_stopped_daemon_is_not_started_by_asking_it(node: Node) -> None:
    with node.without_daemon():
        with pytest.raises(Refused):
            node.shards()
        assert node.daemon_pid() == 0


def test_a_stop_of_the_daemon_is_quick_and_leaves_everything_running(node: Node) -> None:
    ready = node.started("a", **serving(8100), sidecars=[{"name": "head", "command": engine()}])
    pids = node.processes(ready)
    with node.without_daemon():
        assert node.running(pids) == list(pids)
        result = node.systemctl("show", "--value", "--property=Result", DAEMON)
        assert result == "success"
