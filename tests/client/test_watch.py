"""The stream of news of all shards: complete, in order, each thing once."""

import asyncio
from pathlib import Path

from llmgwd.bus.connection import Connection
from llmgwd.client.node import NodeClient
from llmgwd.client.watch import Changed, DaemonCame, DaemonLeft, News, Removed, StateChanged, Watch
from tests.fakes.node import FakeNode, private_bus
from tests.fakes.node_fixtures import client, fake_node, node, zygote

__all__ = ["client", "fake_node", "node", "zygote"]


async def news(watch: Watch, count: int) -> list[News | None]:
    return [await watch.news(30) for _ in range(count)]


async def test_a_watch_tells_each_change_with_the_shard_as_it_was_then(
    node: FakeNode, client: NodeClient
) -> None:
    node.put("a", State="loading")
    watch = Watch(client)
    await watch.begin()
    node.change("a", Reason="answers 503")
    node.change("a", Health="ok")
    node.change("a", State="ready", Reason="", Health="failing", Pid=7)
    node.put("b")
    node.do("remove", id="a")
    seen = await news(watch, 5)
    a = (await client.list_shards())[0] | {"Id": "a", "ReplicaId": "a"}
    loading = a | {"State": "loading"}

    assert seen == [
        Changed("a", loading, loading | {"Reason": "answers 503"}),
        Changed(
            "a", loading | {"Reason": "answers 503"}, loading | {"Reason": "answers 503", "Health": "ok"}
        ),
        StateChanged("a", "loading", "ready", "", a | {"State": "ready", "Health": "failing", "Pid": 7}),
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

    told = [(one.id, one.old, one.new) for one in await news(watch, 3) if isinstance(one, StateChanged)]
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

    shard = (await client.list_shards())[0]
    assert await news(watch, 1) == [StateChanged("a", "ready", "draining", "", shard)]
    assert (watch.shards, await watch.news(0)) == ({"a": shard}, None)


async def test_a_watch_has_no_gap_when_the_daemon_is_restarted(node: FakeNode, client: NodeClient) -> None:
    node.put("a", State="ready")
    for shard_id in ("b", "d", "e"):
        node.put(shard_id, State="ready")
    watch = Watch(client)
    await watch.begin()
    node.kill()
    assert await watch.news(30) == DaemonLeft()
    node.start(
        {"Id": "a", "State": "failed", "Reason": "exited"},
        {"Id": "c", "State": "loading"},
        {"Id": "d", "State": "ready", "Reason": "other"},
        {"Id": "e", "State": "ready"},
    )

    a, c, d, _ = await client.list_shards()
    assert await news(watch, 5) == [
        DaemonCame(),
        Removed("b"),
        StateChanged("a", "ready", "failed", "exited", a),
        StateChanged("c", "", "loading", "", c),
        Changed("d", d | {"Reason": ""}, d),
    ]
    assert await watch.news(0) is None


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
