"""Signals that we send, and those that we want."""

import asyncio

import pytest

from llmgwd.bus.connection import Connection, Signal
from llmgwd.bus.library import Message, Variant
from tests.bus.conftest import Connect
from tests.bus.example import MANAGER, Example, Shard

Signals = asyncio.Queue[Signal]
CHANGED = "org.freedesktop.DBus.Properties"
MANAGED = "org.freedesktop.DBus.ObjectManager"


async def listen(client: Connection, member: str, interface: str = MANAGER[2], **options: str) -> Signals:
    """The signals of the example service."""
    signals: Signals = asyncio.Queue()
    await client.subscribe(
        signals.put_nowait, sender=Example.NAME, interface=interface, member=member, **options
    )
    return signals


async def came(signals: Signals, count: int) -> list[list[object]]:
    """The bodies of the next signals, and the proof that no more came."""
    found = [(await signals.get()).body for _ in range(count)]
    assert signals.empty()
    return found


async def test_a_signal_arrives_with_all_that_belongs_to_it(example: Example, client: Connection) -> None:
    signals = await listen(client, "StateChanged")
    example.manager.emit("StateChanged", "a", "ready")
    assert await signals.get() == Signal(
        sender=example.connection.unique_name,
        path=Example.ROOT,
        interface="org.example.Node1.Manager",
        member="StateChanged",
        body=["a", "ready"],
    )


async def test_a_burst_of_5000_signals_arrives_whole_and_in_order(
    connect: Connect, client: Connection
) -> None:
    example = Example()
    connection = await connect(Example.NAME, send_buffer=False)
    connection.serve(example.objects)
    name = connection.unique_name
    signals = await listen(client, "StateChanged")
    for number in range(5000):
        example.manager.emit("StateChanged", str(number), "x" * 1000)
    numbers = [(await signals.get()).body[0] for _ in range(5000)]
    assert numbers == [str(number) for number in range(5000)]
    assert (connection.connected, connection.unique_name) == (True, name)


async def test_a_burst_is_answered_in_between(example: Example, client: Connection) -> None:
    for number in range(2000):
        example.manager.emit("StateChanged", str(number), "x" * 1000)
    assert (await client.call(*MANAGER, "Echo", "sa{sv}", "still here", {}, timeout_s=10))[0] == "still here"


async def test_a_forged_signal_is_ignored(example: Example, client: Connection, connect: Connect) -> None:
    signals = await listen(client, "StateChanged")
    forger = await connect()
    forger.emit(*MANAGER[1:], "StateChanged", "ss", "a", "broadcast")
    forged = Message.new_signal(*MANAGER[1:], "StateChanged", "ss", ["a", "sent to the victim alone"])
    forged.destination = client.unique_name
    forger._link.send(forged)
    lie = Message.new_signal("/org/freedesktop/DBus", "org.freedesktop.DBus", "NameOwnerChanged", "sss")
    lie.body = [Example.NAME, example.connection.unique_name, forger.unique_name]
    lie.destination = client.unique_name
    forger._link.send(lie)
    forger._link.send(forged)
    await forger.call("org.freedesktop.DBus", "/", "org.freedesktop.DBus", "GetId")
    example.manager.emit("StateChanged", "a", "true")
    assert await came(signals, 1) == [["a", "true"]]


async def test_the_next_owner_of_a_name_is_heard_and_the_former_is_not(
    example: Example, client: Connection, connect: Connect
) -> None:
    signals = await listen(client, "StateChanged")
    former = example.connection
    await former.call("org.freedesktop.DBus", "/", "org.freedesktop.DBus", "ReleaseName", "s", Example.NAME)
    former.emit(*MANAGER[1:], "StateChanged", "ss", "a", "from nobody")
    await former.call("org.freedesktop.DBus", "/", "org.freedesktop.DBus", "GetId")
    successor = await connect(Example.NAME)
    successor.emit(*MANAGER[1:], "StateChanged", "ss", "a", "from the successor")
    former.emit(*MANAGER[1:], "StateChanged", "ss", "a", "from the former")
    await former.call("org.freedesktop.DBus", "/", "org.freedesktop.DBus", "GetId")
    await client.call("org.freedesktop.DBus", "/", "org.freedesktop.DBus", "GetId")
    assert await came(signals, 1) == [["a", "from the successor"]]


async def test_a_name_without_an_owner_can_be_subscribed_to(client: Connection, connect: Connect) -> None:
    signals = await listen(client, "StateChanged")
    example = Example()
    connection = await connect(Example.NAME)
    connection.serve(example.objects)
    example.manager.emit("StateChanged", "a", "now there is one")
    assert await came(signals, 1) == [["a", "now there is one"]]


async def test_only_what_was_asked_for_is_heard(example: Example, client: Connection) -> None:
    shards = {name: Shard(name) for name in ("a", "b")}
    for name, shard in shards.items():
        example.objects.add(f"{Example.ROOT}/shard/{name}", shard)
    of_a = await listen(client, "StateChanged", Shard.name, path=f"{Example.ROOT}/shard/a")
    of_all = await listen(client, "StateChanged", Shard.name)
    first = await listen(client, "StateChanged", arg0="b")
    for shard in shards.values():
        shard.emit("StateChanged", "", shard.id)
    example.manager.emit("StateChanged", "a", "1")
    example.manager.emit("StateChanged", "b", "2")
    example.manager.emit("Nothing")
    assert await came(first, 1) == [["b", "2"]]
    assert await came(of_a, 1) == [["", "a"]]
    assert await came(of_all, 2) == [["", "a"], ["", "b"]]


async def test_the_bus_and_unique_names_can_be_subscribed_to(client: Connection, connect: Connect) -> None:
    other = await connect()
    signals: Signals = asyncio.Queue()
    of_other: Signals = asyncio.Queue()
    await client.subscribe(
        signals.put_nowait,
        sender="org.freedesktop.DBus",
        interface="org.freedesktop.DBus",
        member="NameOwnerChanged",
        arg0=other.unique_name,
    )
    await client.subscribe(of_other.put_nowait, sender=other.unique_name, interface="a.b", member="C")
    other.emit("/", "a.b", "C")
    await other.close()
    assert await came(of_other, 1) == [[]]
    assert await came(signals, 1) == [[other.unique_name, other.unique_name, ""]]


async def test_a_first_argument_that_is_no_text_is_not_the_one_that_was_asked_for(
    client: Connection, connect: Connect
) -> None:
    other = await connect()
    signals: Signals = asyncio.Queue()
    await client.subscribe(
        signals.put_nowait, sender=other.unique_name, interface="a.b", member="C", arg0="x"
    )
    await client.subscribe(lambda signal: None, sender=other.unique_name, interface="a.b", member="C")
    other.emit("/", "a.b", "C")
    other.emit("/", "a.b", "C", "a{sv}", {"x": Variant("s", "x")})
    other.emit("/", "a.b", "C", "ss", "x", "y")
    assert await came(signals, 1) == [["x", "y"]]


async def test_one_handler_that_fails_does_not_keep_a_signal_from_another(
    example: Example, client: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(signal: Signal) -> None:
        raise RuntimeError("no")

    await client.subscribe(fail, sender=Example.NAME, interface=MANAGER[2], member="StateChanged")
    signals = await listen(client, "StateChanged")
    example.manager.emit("StateChanged", "a", "1")
    assert await came(signals, 1) == [["a", "1"]]
    assert "cannot handle signal" in caplog.text


async def test_a_change_is_announced_as_the_property_is_declared(
    example: Example, client: Connection
) -> None:
    signals = await listen(client, "PropertiesChanged", CHANGED)
    example.manager.changed("Gpus", "Load")
    example.manager.changed()
    example.manager.changed("Load")
    assert await came(signals, 2) == [
        ["org.example.Node1.Manager", {"Gpus": Variant("aa{sv}", [{"index": Variant("u", 0)}])}, ["Load"]],
        ["org.example.Node1.Manager", {}, ["Load"]],
    ]
    for silent in ("Version", "Uptime"):
        with pytest.raises(ValueError, match="not announced"):
            example.manager.changed(silent)


async def test_objects_come_and_go_in_the_name_of_the_root(example: Example, client: Connection) -> None:
    added = await listen(client, "InterfacesAdded", MANAGED, path=Example.ROOT)
    removed = await listen(client, "InterfacesRemoved", MANAGED, path=Example.ROOT)
    path = f"{Example.ROOT}/shard/a"
    shard = Shard("a")
    example.objects.add(path, shard)
    example.objects.remove(path)
    shard.emit("StateChanged", "", "nobody hears it")
    shard.changed("Pid")
    properties = {"Id": Variant("s", "a"), "Pid": Variant("u", 0)}
    assert await came(added, 1) == [[path, {"org.example.Node1.Shard": properties}]]
    assert await came(removed, 1) == [[path, ["org.example.Node1.Shard"]]]


async def test_a_signal_that_is_not_as_declared_is_refused(example: Example) -> None:
    with pytest.raises(KeyError):
        example.manager.emit("Unheard")
    with pytest.raises(Exception, match=r"."):  # each library has its own
        example.manager.emit("StateChanged", "a", 7)
    assert example.connection.connected
