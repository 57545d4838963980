"""Asking for the same shard again, for another one of its name, and for what another one holds."""

import json

import pytest

from tests.machine.node import ROOT, Node, Refused, call, spelled
from tests.machine.specs import engine, serving, waiting
from tests.machine.test_shards import OBJECT_MANAGER

SLEEP = ["/usr/bin/sleep", "1000"]


def starts(node: Node) -> int:
    properties = "org.freedesktop.DBus.Properties"
    return int(node.call("Get", "ss", "org.llmgw.Node1.Manager", "Starts", interface=properties))


def refusal(node: Node, id: str, **spec: object) -> str:
    with pytest.raises(Refused) as refused:
        node.start(id, **spec)
    return str(refused.value)


def test_the_same_spec_again_is_the_same_shard_and_starts_nothing(node: Node) -> None:
    path = node.start("a", **serving(8100), stop_timeout_s=60.0)
    ready = node.wait_state("a", "ready")
    begun = starts(node)
    # defaults spelled out, and a number as another type, are the same spec
    assert node.start("a", **serving(8100), stop_timeout_s=60, host="127.0.0.1", nodes=1, rank=0) == path
    again = node.shard("a") | {"Health": "", "Reason": ""}
    assert (again, starts(node)) == (ready | {"Health": "", "Reason": ""}, begun)
    assert len(node.processes(ready)) == 2


def test_twenty_starts_at_once_are_one_shard(node: Node) -> None:
    begun = starts(node)
    one = call("StartShard", *spelled("a", **serving(8100)))
    script = 'for n in $(seq 20); do "$@" & done; wait'
    printed = node.machine.run(["sh", "-c", script, "sh", *one]).stdout.splitlines()
    assert [json.loads(line)["data"] for line in printed] == [[f"{ROOT}/shard/a"]] * 20
    ready = node.wait_state("a", "ready")
    assert (len(node.processes(ready)), starts(node)) == (2, begun + 1)


def test_twenty_shards_at_once_are_twenty(node: Node) -> None:
    script = f"""
        for id in $(seq 20); do
            {" ".join(call("StartShard", "'sa{sv}'", "$id", "2"))} \\
                engine s command command as 2 /usr/bin/sleep 1000 &
        done; wait
    """
    node.machine.run(["sh", "-c", script])
    shards = [node.wait_state(str(number), "ready") for number in range(1, 21)]
    assert [len(node.processes(shard)) for shard in shards] == [2] * 20
    assert len({shard["InvocationId"] for shard in shards}) == 20


def test_another_spec_for_a_live_shard_is_a_conflict_that_names_the_difference(node: Node) -> None:
    ready = node.started("a", **serving(8100), environment={"A": "1", "TOKEN": "secret"})
    same = serving(8100) | {"environment": {"A": "1", "TOKEN": "secret"}}
    command = ", ".join(map(str, listed(same["command"])))
    assert {
        refusal(node, "a", **same | {"port": 8101}),
        refusal(node, "a", **same | {"command": SLEEP}),
        refusal(node, "a", **same | {"environment": {"A": "1", "TOKEN": "other"}}),
        refusal(node, "a", **same | {"gpus": ["0"]}),
        refusal(node, "a", **same | {"stop_timeout_s": 5}),
    } == {
        "SpecConflict: shard a runs with port 8100, asked for 8101",
        f"SpecConflict: shard a runs with command [{command}], asked for [/usr/bin/sleep, 1000]",
        "SpecConflict: shard a runs with another environment: TOKEN differ",
        "SpecConflict: shard a runs with gpus none, asked for [0]",
        "SpecConflict: shard a runs with stop_timeout_s 60, asked for 5",
    }
    assert node.shard("a")["Pid"] == ready["Pid"]


def listed(value: object) -> list[object]:
    assert isinstance(value, list)
    return value


def test_a_shard_that_drains_is_busy(node: Node) -> None:
    node.started("a", **serving(8100))
    node.call("DrainShard", "s", "a")
    assert refusal(node, "a", **serving(8100)) == "Busy: shard a is draining"


def test_a_shard_that_stops_is_busy_and_can_be_started_when_it_has_stopped(node: Node) -> None:
    deaf = {"command": engine("--deaf", "--say", "up"), "stop_timeout_s": 1}
    node.start("a", **deaf)
    node.machine.wait_for("it is deaf", lambda: node.tail("a") == ["up"])
    node.stop("a")
    assert refusal(node, "a", **deaf) == "Busy: shard a is draining"
    node.wait_state("a", "stopped")
    node.started("a", **deaf)


def test_a_shard_that_has_ended_is_replaced_object_and_output_and_all(node: Node) -> None:
    node.start("a", command=engine("--say", "first", "--ends-after", "0", "--status", "3"))
    node.wait_state("a", "failed")
    with node.signals() as bus:
        node.start("a", command=engine("--say", "second"))
        second = node.wait_state("a", "ready")
        bus.wait_state("a", "ready")
    objects = [(one.member, one.body[0]) for one in bus.seen if one.interface == OBJECT_MANAGER]
    path = f"{ROOT}/shard/a"
    assert objects == [("InterfacesRemoved", path), ("InterfacesAdded", path)]
    assert bus.states("a")[0] == ("", "pending", "accepted")
    assert {key: second[key] for key in ("State", "ExitCode", "ExitSignal", "Adopted")} == {
        "State": "ready",
        "ExitCode": -1,
        "ExitSignal": "",
        "Adopted": False,
    }
    assert node.machine.wait_for("it has spoken", lambda: node.tail("a")) == ["second"]


def test_a_port_that_a_live_shard_claims_is_busy_until_that_one_has_ended(node: Node) -> None:
    node.started("holder", **serving(8100))
    node.start(
        "leader", command=SLEEP, **waiting(8200) | {"rank": 0}, sidecars=[{"name": "head", "command": SLEEP}]
    )
    assert refusal(node, "b", **serving(8100)) == "ResourceBusy: port 8100 is claimed by shard holder"
    assert refusal(node, "b", **serving(8200)) == "ResourceBusy: port 8200 is claimed by shard leader"
    assert [*node.shards()] == ["holder", "leader"]
    node.stop("holder")
    node.wait_state("holder", "stopped")
    assert node.started("b", **serving(8100))["Endpoint"] == "http://127.0.0.1:8100"


def test_a_claim_outlives_the_daemon(node: Node) -> None:
    node.started("holder", **serving(8100))
    node.kill_daemon()
    assert refusal(node, "b", **serving(8100)) == "ResourceBusy: port 8100 is claimed by shard holder"


def test_a_gpu_that_a_live_shard_claims_is_busy(node: Node) -> None:
    node.started("holder", command=SLEEP, gpus=["0", "1"])
    assert refusal(node, "b", command=SLEEP, gpus=["1"]) == "ResourceBusy: GPU 1 is claimed by shard holder"
    node.started("c", command=SLEEP, gpus=[])


def test_removing_forgets_an_ended_shard_and_refuses_a_live_one(node: Node) -> None:
    node.started("a", command=SLEEP)
    text = "^WrongState: shard a is ready, only a terminal one can be removed$"
    with pytest.raises(Refused, match=text):
        node.call("RemoveShard", "s", "a")
    node.stop("a")
    node.wait_state("a", "stopped")
    with node.signals() as bus:
        node.call("RemoveShard", "s", "a")
        bus.wait("it is gone", lambda seen: [one for one in seen if one.member == "InterfacesRemoved"])
    assert (node.shards(), node.machine.run(["ls", "/var/lib/llmgwd"]).stdout) == ({}, "")
    with pytest.raises(Refused, match=r"^NoSuchShard: no shard 'a' on this node$"):
        node.call("TailShard", "su", "a", "0")


@pytest.mark.parametrize("command", ["daemon-reload", "daemon-reexec"])
def test_starts_are_not_lost_while_systemd_reloads(node: Node, command: str) -> None:
    # with a pause: a PID 1 that does nothing else answers nobody
    loop = ["sh", "-c", f"echo going; while :; do systemctl {command}; sleep 0.1; done"]
    with node.machine.popen(loop) as reloading:
        assert reloading.stdout is not None
        assert reloading.stdout.readline() == "going\n"
        for number in range(20):
            node.start(f"n{number}", command=SLEEP)
        ready = [node.wait_state(f"n{number}", "ready", timeout_s=60) for number in range(20)]
    assert [len(node.processes(shard)) for shard in ready] == [2] * 20
    node.kill(ready[0]["Pid"])
    assert node.wait_state("n0", "failed")["ExitSignal"] == "SIGKILL"


def test_a_start_after_systemd_was_executed_anew_works_and_so_do_its_end_and_its_stop(node: Node) -> None:
    before = node.started("before", command=SLEEP)
    node.systemctl("daemon-reexec")
    node.started("after", command=SLEEP)
    node.kill(before["Pid"])
    assert node.wait_state("before", "failed")["ExitSignal"] == "SIGKILL"
    node.systemctl("stop", "llmgw-shard-after.scope")
    assert node.wait_state("after", "stopped")["Reason"] == "stopped by systemd"
