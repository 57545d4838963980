"""The typed client, against a fake daemon on a bus of our own."""

import asyncio
from pathlib import Path

import pytest

from llmgwd.bus.connection import Connection
from llmgwd.bus.errors import CallFailed
from llmgwd.client.errors import Unanswered, UnknownRefusal, Unreachable, translated
from llmgwd.client.node import NodeClient
from llmgwd.model import errors
from llmgwd.model.errors import BY_NAME, LimitExceeded, NoSuchShard, NotAllowed, Refusal
from tests.fakes.node import FakeNode, private_bus
from tests.fakes.node_fixtures import client, fake_node, node, zygote

__all__ = ["client", "fake_node", "node", "zygote"]

NODE = "org.llmgw.Node1.Error."
DBUS = "org.freedesktop.DBus.Error."


async def test_every_call_reaches_the_daemon_with_its_arguments(node: FakeNode, client: NodeClient) -> None:
    assert await client.start_shard("a/b", {"engine": "vllm"}) == "/org/llmgw/Node1/shard/a_2fb"
    assert await client.get_shard("a/b") == "/org/llmgw/Node1/shard/a_2fb"
    await client.plan_shard("c", {"engine": "vllm", "port": 1})
    await client.stop_shard("a/b", drain_seconds=0, timeout_seconds=1.5)
    await client.stop_all(timeout_seconds=2)
    await client.drain_shard("a/b")
    await client.remove_shard("a/b")
    await client.kill_orphan("x.scope")
    await client.reload()

    assert node.calls() == [
        ["StartShard", "a/b", {"engine": ["s", "vllm"]}],
        ["PlanShard", "c", {"engine": ["s", "vllm"], "port": ["u", 1]}],
        ["StopShard", "a/b", {"drain_seconds": ["d", 0.0], "timeout_seconds": ["d", 1.5]}],
        ["StopAll", {"timeout_seconds": ["d", 2.0]}],
        ["DrainShard", "a/b"],
        ["RemoveShard", "a/b"],
        ["KillOrphan", "x.scope"],
        ["Reload"],
    ]


async def test_answers_are_plain_values(node: FakeNode, client: NodeClient) -> None:
    orphan = {"unit": "x.scope", "control_group": "/x", "pids": [1, 2], "id": "x"}
    command = {
        "name": "engine", "argv": ["/bin/x"], "environment": {"A": "1"}, "working_directory": "/",
        "waits_for": ["h:1"], "warnings": [],
    }  # fmt: skip
    node.do("set", what="orphans", value=[orphan])
    node.do("set", what="commands", value=[command])
    node.put("a", State="ready", Gpus=["0"], Spec={"engine": "command", "command": ["/bin/x"]})
    node.do("log", id="a", lines=["one", "two"])

    shard = await client.read_shard("a")
    assert {key: shard[key] for key in ("Id", "State", "Gpus", "Spec")} == {
        "Id": "a", "State": "ready", "Gpus": ["0"], "Spec": {"engine": "command", "command": ["/bin/x"]}
    }  # fmt: skip
    assert await client.list_shards() == [shard]
    assert await client.tail_shard("a", 1) == ["two"]
    assert await client.list_orphans() == [orphan]
    assert await client.plan_shard("a", {}) == [command]
    assert await client.get_statistics() == [{"id": "a", "memory_current": 1 << 40, "starts": 1}]
    assert (await client.read_node())["Engines"] == ["command", "llama-cpp", "vllm"]


async def test_a_refusal_is_an_exception_of_its_own(node: FakeNode, client: NodeClient) -> None:
    with pytest.raises(NoSuchShard) as missing:
        await client.drain_shard("zz")

    assert str(missing.value) == "NoSuchShard: no shard zz"


@pytest.mark.parametrize(
    ("error", "text", "kind", "words"),
    [
        *(
            (NODE + name, f"{name}: no", kind, f"{name}: no")
            for name, kind in BY_NAME.items()
            if kind is not NotAllowed
        ),
        (DBUS + "AccessDenied", "AccessDenied: no", NotAllowed, "NotAllowed: no"),
        (
            DBUS + "AccessDenied",
            "Rejected send message",
            NotAllowed,
            "NotAllowed: the policy of the bus does not let this user call llmgwd",
        ),
        (DBUS + "InteractiveAuthorizationRequired", "no", NotAllowed, "NotAllowed: no"),
        (DBUS + "LimitsExceeded", "LimitsExceeded: no", LimitExceeded, "LimitExceeded: no"),
        (DBUS + "UnknownMethod", "no", UnknownRefusal, "UnknownMethod: no"),
        (NODE + "Novel", "Novel: no", UnknownRefusal, "Novel: no"),
        ("com.example.Busy", "no", UnknownRefusal, "Busy: no"),
        (DBUS + "ServiceUnknown", "", Unreachable, "nobody owns org.llmgw.Node1 on the bus, is it running?"),
        (DBUS + "NameHasNoOwner", "", Unreachable, "nobody owns org.llmgw.Node1 on the bus, is it running?"),
        (DBUS + "NoReply", "", Unanswered, "it went away before it answered"),
    ],
)
def test_each_error_of_the_bus_has_its_meaning(
    error: str, text: str, kind: type[Exception], words: str
) -> None:
    meant = translated(CallFailed(error, text))

    assert (type(meant), str(meant)) == (kind, words)


def test_only_the_daemons_own_errors_are_refusals_of_the_contract() -> None:
    assert not isinstance(translated(CallFailed(NODE + "NotAllowed", "")), NotAllowed)
    assert isinstance(translated(CallFailed(NODE + "Novel", "")), Refusal)


async def test_without_a_bus_nobody_is_reached(tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match=r"^cannot connect to the bus at unix:path="):
        await NodeClient(Connection(f"unix:path={tmp_path}/nowhere")).connect()


async def test_a_daemon_that_leaves_before_it_answers_is_not_asked_to_remove_again(
    node: FakeNode, client: NodeClient
) -> None:
    node.put("a", State="failed")
    node.do("die on", member="RemoveShard")

    with pytest.raises(Unanswered, match=r"^it went away before it answered$"):
        await client.remove_shard("a")


async def test_a_start_is_asked_for_again_when_the_bus_itself_is_lost(tmp_path: Path) -> None:
    with private_bus(tmp_path) as address:
        node = FakeNode(address)
        node.start()
        node.do("hold", member="StartShard")
        client = NodeClient(Connection(address, send_buffer=False))
        await client.connect()
        starting = asyncio.create_task(client.start_shard("a", {"engine": "vllm"}))
        await asyncio.to_thread(node.await_answer, "StartShard")
    node.kill()
    (tmp_path / "bus").unlink(missing_ok=True)
    with private_bus(tmp_path):
        node.start()

        assert await starting == "/org/llmgw/Node1/shard/a"
        assert node.calls() == [["StartShard", "a", {"engine": ["s", "vllm"]}]]
        await client.close()
        node.kill()


def test_every_refusal_of_the_contract_is_known() -> None:
    assert set(BY_NAME.values()) == {
        kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Refusal)
    } - {Refusal}
