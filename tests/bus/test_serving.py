"""Calls that others make of us."""

import asyncio
import logging
from pathlib import Path

import pytest

from llmgwd.bus.calls import Caller, Interface, exported
from llmgwd.bus.connection import CallFailed, Connection
from llmgwd.bus.library import Message, MessageFlag, Variant
from llmgwd.bus.link import call_message
from llmgwd.bus.objects import CALLS_PER_CALLER
from tests.bus.conftest import Connect
from tests.bus.example import MANAGER, PROPERTIES, Example, Manager, Shard

STANDARD = "org.freedesktop.DBus.Error."
# Empty in a container that never booted.
MACHINE_ID = Path("/etc/machine-id").read_text(encoding="ascii").strip()


async def failure(client: Connection, *call: object) -> tuple[str, str]:
    """Name and text of the error that answers the call."""
    with pytest.raises(CallFailed) as failed:
        await client.call(*call)  # type: ignore[arg-type]
    return failed.value.error.removeprefix(STANDARD), failed.value.text


async def test_a_call_without_a_method_says_what_is_missing(example: Example, client: Connection) -> None:
    name, root, manager = MANAGER
    assert [
        await failure(client, name, "/org/example/None", manager, "Echo"),
        await failure(client, name, "/org/example", manager, "Echo"),
        await failure(client, name, root, "org.example.Node1.None", "Echo"),
        await failure(client, name, root, manager, "None"),
        await failure(client, name, root, "org.freedesktop.DBus.Peer", "None"),
        await failure(
            client, name, "/org/example", "org.freedesktop.DBus.ObjectManager", "GetManagedObjects"
        ),
    ] == [
        ("UnknownObject", "UnknownObject: no object /org/example/None"),
        ("UnknownObject", "UnknownObject: no object /org/example"),
        ("UnknownInterface", f"UnknownInterface: no interface org.example.Node1.None at {root}"),
        ("UnknownMethod", f"UnknownMethod: no method None of {manager} at {root}"),
        ("UnknownMethod", f"UnknownMethod: no method None of org.freedesktop.DBus.Peer at {root}"),
        ("UnknownObject", "UnknownObject: no object /org/example"),
    ]


async def test_a_call_with_other_arguments_is_refused_before_the_method_runs(
    example: Example, client: Connection
) -> None:
    assert [
        await failure(client, *MANAGER, "Echo"),
        await failure(client, *MANAGER, "Echo", "ss", "a", "b"),
        await failure(client, *MANAGER, "Hold", "s", "a"),
        await failure(client, *PROPERTIES, "Get", "s", "a"),
    ] == [
        ("InvalidArgs", "InvalidArgs: Echo takes 'sa{sv}', not ''"),
        ("InvalidArgs", "InvalidArgs: Echo takes 'sa{sv}', not 'ss'"),
        ("InvalidArgs", "InvalidArgs: Hold takes '', not 's'"),
        ("InvalidArgs", "InvalidArgs: Get takes 'ss', not 's'"),
    ]
    assert (example.asked, example.manager.callers) == ([], [])


async def test_a_caller_without_the_right_is_refused_before_the_method_runs(
    example: Example, client: Connection
) -> None:
    answer = await failure(client, *MANAGER, "Command")
    assert answer == ("AccessDenied", "AccessDenied: not you")
    caller = Caller(client.unique_name, interactive=False)
    assert (example.asked, example.manager.callers) == ([(caller, "example.command")], [])


async def test_a_call_without_an_interface_finds_its_method(example: Example, client: Connection) -> None:
    async def call(member: str, signature: str = "", *body: object) -> list[object]:
        message = call_message(*MANAGER, member, signature, *body)
        message.interface = None
        return await client._link.exchange(message)

    assert await call("Echo", "sa{sv}", "a", {}) == ["a", {}]
    assert await call("Get", "ss", Manager.name, "Version") == [Variant("s", "1.2")]
    assert await call("Ping") == []
    with pytest.raises(CallFailed, match="no method None of any interface"):
        await call("None")


async def test_an_unexpected_exception_is_told_to_us_and_not_to_the_caller(
    example: Example, client: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    assert await failure(client, *MANAGER, "Break") == (
        "org.example.Node1.Error.Internal",
        "Internal: org.example.Node1.Manager.Break failed, see the journal",
    )
    assert "the secret is 1234" in caplog.text
    assert "in break_down" in caplog.text


@pytest.mark.parametrize("answer", [("no name", "text"), RuntimeError("broken")])
async def test_a_failure_to_tell_what_an_error_is_answers_all_the_same(
    example: Example, client: Connection, caplog: pytest.LogCaptureFixture, answer: object
) -> None:
    def errors(error: Exception) -> tuple[str, str]:
        if isinstance(answer, Exception):
            raise answer
        return "no name", "text"

    example.objects._errors = errors
    text = "Failed: org.example.Node1.Manager.Refuse failed, see the journal"
    assert await failure(client, *MANAGER, "Refuse", "s", "") == ("Failed", text)
    assert "could not be answered" in caplog.text


@pytest.mark.parametrize("what", ["number", "NUL", "half", "much"])
async def test_an_answer_that_dbus_can_not_carry_is_an_internal_error(
    example: Example, client: Connection, what: str
) -> None:
    name = example.connection.unique_name
    answer = await failure(client, *MANAGER, "Give", "s", what)
    assert answer == (
        "org.example.Node1.Error.Internal",
        "Internal: org.example.Node1.Manager.Give failed, see the journal",
    )
    assert (example.connection.connected, example.connection.unique_name) == (True, name)


async def test_a_tuple_is_as_good_as_a_list(example: Example, client: Connection) -> None:
    assert await client.call(*MANAGER, "Give", "s", "tuple") == [["a", "b"]]


async def test_an_error_text_may_be_made_of_anything(example: Example) -> None:
    sent: asyncio.Queue[Message] = asyncio.Queue()
    call = call_message(*MANAGER, "Refuse", "s", "nothing")
    call.serial, call.sender, call.body = 1, ":1.1", ["a\0b \ud800"]
    example.objects.received(call, sent.put_nowait)
    assert (await sent.get()).body == ["Refused: a\\0b \\ud800"]
    await example.objects.close()


async def test_a_cancelled_method_answers(example: Example, client: Connection) -> None:
    answer = await failure(client, *MANAGER, "Vanish")
    assert answer == ("NoReply", "NoReply: org.example.Node1.Manager.Vanish was given up")


async def test_calls_in_progress_are_answered_when_the_service_closes(
    example: Example, client: Connection
) -> None:
    calls = [asyncio.create_task(client.call(*MANAGER, "Hold")) for _ in range(3)]
    for _ in calls:
        await example.manager.entered.acquire()
    await example.connection.close()
    answers = await asyncio.gather(*calls, return_exceptions=True)
    texts = [answer.text for answer in answers if isinstance(answer, CallFailed)]
    assert texts == ["NoReply: org.example.Node1.Manager.Hold was given up"] * 3


async def test_a_call_that_has_not_begun_is_answered_when_the_service_closes(example: Example) -> None:
    sent: list[Message] = []
    call = call_message(*MANAGER, "Hold", "")
    call.serial, call.sender = 1, ":1.1"
    example.objects.received(call, sent.append)
    await example.objects.close()
    assert [(answer.error_name, answer.reply_serial) for answer in sent] == [(STANDARD + "NoReply", 1)]
    assert example.objects._calls == {}


async def test_a_caller_that_wants_no_answer_gets_none(example: Example) -> None:
    sent: list[Message] = []
    for number, member in enumerate(["Echo", "Refuse", "Break", "None", "Vanish", "Ping", "Hold"]):
        call = call_message(*MANAGER, member, "")
        call.serial, call.sender, call.flags = number + 1, ":1.1", MessageFlag.NO_REPLY_EXPECTED
        example.objects.received(call, sent.append)
    await example.objects.close()
    assert sent == []


async def test_one_caller_may_have_64_calls_in_progress(
    example: Example, client: Connection, connect: Connect
) -> None:
    messages = [call_message(*MANAGER, "Hold", "") for _ in range(CALLS_PER_CALLER + 1)]
    calls = [asyncio.create_task(client._link.exchange(message)) for message in messages]
    with pytest.raises(CallFailed) as refusal:
        await calls.pop()
    assert refusal.value.error == STANDARD + "LimitsExceeded"
    other = await connect()
    assert await other.call(*MANAGER, "Echo", "sa{sv}", "others may", {}) == ["others may", {}]
    example.manager.release.set()
    assert await asyncio.gather(*calls) == [["released"]] * CALLS_PER_CALLER
    assert example.objects._calls == {}


async def test_properties_are_read_with_their_declared_types(example: Example, client: Connection) -> None:
    everything = {
        "Version": Variant("s", "1.2"),
        "Gpus": Variant("aa{sv}", [{"index": Variant("u", 0)}]),
        "Load": Variant("d", 0.5),
        "Uptime": Variant("t", 17),
    }
    assert await client.call(*PROPERTIES, "GetAll", "s", Manager.name) == [everything]
    assert await client.call(*PROPERTIES, "GetAll", "s", "") == [everything]
    assert await client.call(*PROPERTIES, "GetAll", "s", "org.freedesktop.DBus.Peer") == [{}]
    assert await client.call(*PROPERTIES, "Get", "ss", Manager.name, "Uptime") == [Variant("t", 17)]
    assert await client.call(*PROPERTIES, "Get", "ss", "", "Uptime") == [Variant("t", 17)]


async def test_a_property_that_is_not_there_or_not_writable_says_so(
    example: Example, client: Connection
) -> None:
    new = Variant("s", "9")
    interface = Manager.name
    at = f"at {Example.ROOT}"
    assert [
        await failure(client, *PROPERTIES, "Get", "ss", interface, "None"),
        await failure(client, *PROPERTIES, "Get", "ss", "org.example.None", "Version"),
        await failure(client, *PROPERTIES, "GetAll", "s", "org.example.None"),
        await failure(client, *PROPERTIES, "Set", "ssv", interface, "Version", new),
        await failure(client, *PROPERTIES, "Set", "ssv", interface, "None", new),
    ] == [
        ("UnknownProperty", f"UnknownProperty: no property None of {interface} {at}"),
        ("UnknownInterface", f"UnknownInterface: no interface org.example.None {at}"),
        ("UnknownInterface", f"UnknownInterface: no interface org.example.None {at}"),
        ("PropertyReadOnly", f"PropertyReadOnly: property {interface}.Version is read-only"),
        ("UnknownProperty", f"UnknownProperty: no property None of {interface} {at}"),
    ]


@pytest.mark.parametrize("values", [{}, {"Uptime": -1}, {"Uptime": "long"}])
async def test_a_property_that_can_not_be_read_is_an_internal_error(
    example: Example, client: Connection, values: dict[str, object]
) -> None:
    example.manager.values = values
    answer = await failure(client, *PROPERTIES, "Get", "ss", Manager.name, "Uptime")
    assert answer == (
        "org.example.Node1.Error.Internal",
        "Internal: org.freedesktop.DBus.Properties.Get failed, see the journal",
    )


async def test_the_root_lists_all_objects_but_itself(example: Example, client: Connection) -> None:
    call = (Example.NAME, Example.ROOT, "org.freedesktop.DBus.ObjectManager", "GetManagedObjects")
    assert await client.call(*call) == [{}]
    example.objects.add(f"{Example.ROOT}/shard/a", Shard("a"))
    example.objects.add(f"{Example.ROOT}/shard/b", Shard("b"))
    example.objects.remove(f"{Example.ROOT}/shard/a")
    values = {"Id": Variant("s", "b"), "Pid": Variant("u", 0)}
    assert await client.call(*call) == [{f"{Example.ROOT}/shard/b": {"org.example.Node1.Shard": values}}]
    shard = f"{Example.ROOT}/shard/b"
    answer = await failure(client, Example.NAME, shard, "org.freedesktop.DBus.ObjectManager", call[3])
    name = "UnknownInterface"
    assert answer == (name, f"{name}: no interface org.freedesktop.DBus.ObjectManager at {shard}")


async def test_every_path_has_a_peer(example: Example, client: Connection) -> None:
    peer = "org.freedesktop.DBus.Peer"
    assert await client.call(Example.NAME, "/", peer, "Ping") == []
    assert await client.call(Example.NAME, "/none", peer, "Ping") == []
    assert await client.call(Example.NAME, Example.ROOT, peer, "GetMachineId") == [MACHINE_ID]


async def test_a_connection_that_serves_nothing_says_so(client: Connection, connect: Connect) -> None:
    other = await connect()
    answer = await failure(other, client.unique_name, "/", "a.b", "C")
    assert answer == ("UnknownObject", "UnknownObject: there are no objects here")


async def test_an_object_is_served_once(example: Example) -> None:
    path = f"{Example.ROOT}/shard/a"
    shard = Shard("a")
    example.objects.add(path, shard)
    with pytest.raises(ValueError, match=r"has org\.example\.Node1\.Shard already"):
        example.objects.add(path, Shard("a"))
    with pytest.raises(ValueError, match="is served at /org/example/Node1/shard/a already"):
        example.objects.add(f"{Example.ROOT}/shard/b", shard)
    with pytest.raises(ValueError, match="/elsewhere is not below /org/example/Node1"):
        example.objects.add("/elsewhere", Shard("b"))
    assert list(example.objects.paths()) == [Example.ROOT, path]
    example.objects.remove(path)
    with pytest.raises(KeyError):
        example.objects.remove(path)
    example.objects.add(path, shard)
    assert example.objects.interfaces(path) == (shard,)


async def test_nothing_is_logged_for_a_refusal(
    example: Example, client: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    await failure(client, *MANAGER, "Refuse", "s", "no")
    await failure(client, *MANAGER, "Command")
    await failure(client, *MANAGER, "None")
    assert [record.getMessage() for record in caplog.records if record.name != "asyncio"] == []


def test_a_method_without_an_action_can_not_be_declared() -> None:
    with pytest.raises(TypeError):
        exported("Stop")  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="Stop has no action"):
        exported("Stop", action="")


def test_a_wrong_declaration_fails_where_it_stands() -> None:
    async def method(self: Interface, caller: Caller, id: str) -> None:
        pass

    with pytest.raises(TypeError, match="self, caller and 0 arguments"):
        exported("Stop", action="a")(method)
    for wrong in ("s", "s id id2", "s id,", "ss id", "z id", "s 1d"):
        with pytest.raises(Exception, match=r"."):  # an unknown type is the library's to refuse
            exported("Stop", takes=wrong, action="a")
    for declared in ({"PROPERTIES": {"A": "s maybe"}}, {"SIGNALS": {"A-B": ""}}, {"name": "nodots"}):
        with pytest.raises(ValueError, match="not"):
            type("Wrong", (Interface,), {"name": "a.b", **declared})
