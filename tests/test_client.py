"""The typed client, against a fake daemon on a bus of our own."""

import asyncio
import math
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from llmgwd.bus.connection import Connection
from llmgwd.bus.errors import CallFailed
from llmgwd.bus.values import plain
from llmgwd.client import NodeClient
from llmgwd.client_errors import Unanswered, UnknownRefusal, Unreachable, translated
from llmgwd.client_values import dictionary
from llmgwd.client_watch import Changed, DaemonCame, DaemonLeft, News, Removed, StateChanged, Watch
from llmgwd.model import errors
from llmgwd.model.errors import BY_NAME, InvalidSpec, LimitExceeded, NoSuchShard, NotAllowed, Refusal
from llmgwd.model.spec import KEYS
from tests.fakes.manager import tagged
from tests.fakes.node import FakeNode, private_bus
from tests.fakes.node_fixtures import fake_node, node, zygote

__all__ = ["fake_node", "node", "zygote"]

NODE = "org.llmgw.Node1.Error."
DBUS = "org.freedesktop.DBus.Error."


@pytest.fixture
async def client(node: FakeNode) -> AsyncIterator[NodeClient]:
    client = NodeClient(Connection(node.address, send_buffer=False))
    await client.connect()
    yield client
    await client.close()


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


async def news(watch: Watch, count: int) -> list[News | None]:
    return [await watch.news(30) for _ in range(count)]


async def test_a_watch_tells_each_change_with_the_shard_as_it_was_then(
    node: FakeNode, client: NodeClient
) -> None:
    node.put("a", State="loading")
    watch = Watch(client)
    await watch.begin()
    node.change("a", Reason="answers 503")
    node.change("a", State="ready", Reason="", Pid=7)
    node.put("b")
    node.do("remove", id="a")
    seen = await news(watch, 5)
    a = (await client.list_shards())[0] | {"Id": "a", "ReplicaId": "a"}

    assert seen == [
        Changed("a", a | {"State": "loading", "Reason": "answers 503"}),
        Changed("a", a | {"State": "loading", "Reason": "", "Pid": 7}),
        StateChanged("a", "loading", "ready", "", a | {"State": "ready", "Reason": "", "Pid": 7}),
        StateChanged("b", "", "pending", "", (await client.list_shards())[0]),
        Removed("a"),
    ]
    assert watch.shards == {"b": (await client.list_shards())[0]}
    assert await watch.news(0) is None


async def test_a_replaced_shard_is_removed_and_new(node: FakeNode, client: NodeClient) -> None:
    node.put("a", State="failed")
    watch = Watch(client)
    await watch.begin()
    node.put("a", Engine="vllm")

    assert await news(watch, 2) == [
        Removed("a"),
        StateChanged("a", "", "pending", "", (await client.list_shards())[0]),
    ]


async def test_changes_during_the_first_list_are_told_once(node: FakeNode, client: NodeClient) -> None:
    """Those before it are in the list, those after it are news, however close they are."""
    node.put("a", State="starting")
    node.put("b", State="ready")
    node.after("ListShards", ("a", {"State": "loading"}), ("a", {"State": "ready"}))
    watch = Watch(client)
    beginning = asyncio.create_task(watch.begin())
    await asyncio.to_thread(node.await_answer, "ListShards")
    node.change("b", State="draining")
    await beginning

    told = [(one.id, one.old, one.new) for one in await news(watch, 6) if isinstance(one, StateChanged)]
    assert told == [("a", "starting", "loading"), ("a", "loading", "ready"), ("b", "ready", "draining")]


async def test_what_is_older_than_the_list_is_not_told(node: FakeNode, client: NodeClient) -> None:
    node.put("a", State="starting")
    watch = Watch(client)
    node.do("hold", member="ListShards")
    beginning = asyncio.create_task(watch.begin())
    await asyncio.to_thread(node.await_answer, "ListShards")
    node.change("a", State="loading")
    node.change("a", State="ready")
    node.do("release", member="ListShards")
    await beginning
    node.change("a", State="draining")

    states = [one for one in await news(watch, 4) if isinstance(one, StateChanged)]
    assert (watch.shards["a"]["State"], [(one.old, one.new) for one in states]) == (
        "draining", [("ready", "draining")]
    )  # fmt: skip


async def test_a_watch_has_no_gap_when_the_daemon_is_restarted(node: FakeNode, client: NodeClient) -> None:
    node.put("a", State="ready")
    node.put("b", State="ready")
    watch = Watch(client)
    await watch.begin()
    node.kill()
    assert await watch.news(30) == DaemonLeft()
    node.start({"Id": "a", "State": "failed", "Reason": "exited"}, {"Id": "c", "State": "loading"})

    a, c = await client.list_shards()
    assert await news(watch, 4) == [
        DaemonCame(),
        Removed("b"),
        StateChanged("a", "ready", "failed", "exited", a),
        StateChanged("c", "", "loading", "", c),
    ]


async def test_a_watch_has_no_gap_when_the_bus_is_restarted(tmp_path: Path) -> None:
    with private_bus(tmp_path) as address:
        node = FakeNode(address)
        node.start({"Id": "a", "State": "loading"})
        client = NodeClient(Connection(address, send_buffer=False))
        await client.connect()
        watch = Watch(client)
        await watch.begin()
        node.kill()
    (tmp_path / "bus").unlink(missing_ok=True)
    with private_bus(tmp_path):
        node.start({"Id": "a", "State": "ready"})

        told = [one for one in [await watch.news(30) for _ in range(3)] if isinstance(one, StateChanged)]
        assert [(one.old, one.new) for one in told] == [("loading", "ready")]
        await client.close()
        node.kill()


def test_a_value_travels_as_its_key_says_and_comes_back() -> None:
    sidecars = [{"name": "head", "command": ["/bin/true"], "waits_for_leader": True}]
    values: dict[str, object] = {
        "model": "ü", "nodes": 2, "gpus": ("0", "1"), "environment": {"A": ""}, "sidecars": sidecars,
        "ready_timeout_s": 1, "memory_max": 1 << 63, "verify_listener": False,
    }  # fmt: skip

    sent = dictionary(values, KEYS)

    assert {key: variant.signature for key, variant in sent.items()} == {key: KEYS[key] for key in values}
    assert plain(sent) == values | {"gpus": ["0", "1"]}


@pytest.mark.parametrize(
    ("value", "sent"),
    [
        (-1, ["x", -1]),
        (1 << 63, ["t", 1 << 63]),
        (1.5, ["d", 1.5]),
        (math.inf, ["d", math.inf]),
        (True, ["b", True]),
        ([], ["as", []]),
        ([{}], ["aa{sv}", [{}]]),
        ([1, "a"], ["av", [["x", 1], ["s", "a"]]]),
        ({"a": [1.5]}, ["a{sv}", {"a": ["av", [["d", 1.5]]]}]),
    ],
)
def test_a_value_of_no_key_travels_as_what_it_is(value: object, sent: object) -> None:
    assert tagged(dictionary({"x": value}, {})) == {"x": sent}


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"model": "a\0b"}, "model: got 'a\\x00b', takes UTF-8 without NUL"),
        ({"environment": {"A": "\udcff"}}, "environment: got '\\udcff', takes UTF-8 without NUL"),
        ({"sidecars": [{"name": "\0"}]}, "sidecars[0].name: got '\\x00', takes UTF-8 without NUL"),
        ({"a\0": 1}, "a key: got 'a\\x00', takes UTF-8 without NUL"),
        ({"x": 1 << 64}, "x: got a number beyond 64 bits, which no message can carry"),
        ({"x": None}, "x: got nothing, which no message can carry"),
        ({"x": {1: 2}}, "x: got a table, which no message can carry"),
    ],
)
def test_what_no_message_can_carry_is_named(values: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidSpec) as refused:
        dictionary(values, KEYS)

    assert refused.value.text == words


def test_every_refusal_of_the_contract_is_known() -> None:
    assert set(BY_NAME.values()) == {
        kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Refusal)
    } - {Refusal}
