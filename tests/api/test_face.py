"""What the bus sees of a node: what is there, what is told, and in which order."""

from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

import pytest

from llmgwd.api import paths
from llmgwd.api.face import Face, error_of
from llmgwd.api.manager import Manager
from llmgwd.api.shard import ShardObject
from llmgwd.bus.calls import Caller
from llmgwd.bus.library import Variant
from llmgwd.bus.objects import Objects
from llmgwd.bus.values import plain
from llmgwd.engines.facts import Gpu
from llmgwd.host.about import About
from llmgwd.host.journal_text import Line
from llmgwd.host.rdma import RdmaPort
from llmgwd.model.errors import EngineUnavailable, InvalidConfig, InvalidSpec, NoSuchShard
from llmgwd.model.lifecycle import State
from tests.fakes.program import stranger
from tests.fakes.world import FakeWorld, unit

ME = Caller(":1.1", interactive=False)
A = "/org/llmgw/Node1/shard/a"
ABOUT = About(
    version="0.1",
    node_name="node1",
    management_address="10.0.0.1",
    management_interface="eth0",
    nccl_ib_gid_index=3,
    rdma=(RdmaPort("mlx5_0", 1, "Ethernet", "ACTIVE", "eth1", 3, "::ffff:10.0.0.1"),),
    gpus=(Gpu(0, "GPU-aa", "A100", "nvidia", 80), Gpu(1, "GPU-bb", "A100", "nvidia", 80)),
    engines=("command", "vllm"),
    warnings=("look here",),
    addresses=("127.0.0.1", "10.0.0.1"),
    ephemeral_ports=(32_768, 60_999),
)


class Seat:
    """Where a client sits: every signal, as it came."""

    def __init__(self, world: FakeWorld, about: About = ABOUT) -> None:
        self.signals: list[tuple[str, str, list[Any]]] = []
        self.reloads = 0
        self.reload_fails: Exception | None = None
        self.objects = Objects(paths.ROOT, authorise=self._allow, errors=error_of)
        self.face = Face(world.node, about, self.objects, self._reload)
        for shard in world.node.shards():
            self.face.added(shard)
        self.objects.served(self._emit)

    @property
    def manager(self) -> Manager:
        (manager,) = self.objects.interfaces(paths.ROOT)
        assert isinstance(manager, Manager)
        return manager

    def shard(self, path: str = A) -> ShardObject:
        (shard,) = self.objects.interfaces(path)
        assert isinstance(shard, ShardObject)
        return shard

    def read(self, path: str = A) -> dict[str, Any]:
        return {name: plain(value) for name, value in self.shard(path).properties().items()}

    def told(self) -> list[tuple[Any, ...]]:
        """Short: who, what, and of properties the names."""
        return [
            (path.removeprefix(paths.ROOT), member, *(body if member != "PropertiesChanged" else body[1]))
            if member != "InterfacesAdded"
            else (path.removeprefix(paths.ROOT), member, body[0])
            for path, member, body in self.signals
        ]

    def _emit(self, path: str, interface: str, member: str, signature: str = "", *body: Any) -> None:
        self.signals.append((path, member, list(body)))

    async def _allow(self, _: Caller, __: str) -> None:
        """Everybody may do everything."""

    async def _reload(self) -> None:
        self.reloads += 1
        if self.reload_fails is not None:
            raise self.reload_fails


@pytest.fixture
def seat(world: FakeWorld) -> Seat:
    return Seat(world)


async def ready(world: FakeWorld, seat: Seat, id: str = "a", **more: Any) -> None:
    await world.node.start(id, world.values(id, **more))
    shard, told = world.node.shard(id), ("ShardStateChanged", id, "loading", "ready")
    await world.until(lambda: told in [words[1:5] for words in seat.told()])
    await world.until(lambda: shard.pid and world.program(id).runs)


async def stopped(world: FakeWorld, id: str = "a") -> None:
    await world.stop(id)
    shard = world.node.shard(id)
    await world.until(lambda: shard.record.state is State.STOPPED)
    await world.node._keepers[id].wait()


async def test_the_life_of_a_shard_is_told_in_order(world: FakeWorld, seat: Seat) -> None:
    await ready(world, seat)
    await stopped(world)
    shard, changed = "/shard/a", "PropertiesChanged"
    assert seat.told() == [
        ("", "InterfacesAdded", A),
        ("", "ShardStateChanged", "a", "", "pending", "accepted"),
        ("", changed, "Starts"),
        (shard, changed, "State", "Reason"),
        (shard, "StateChanged", "pending", "starting", "held at the gate"),
        ("", "ShardStateChanged", "a", "pending", "starting", "held at the gate"),
        (shard, changed, "InvocationId", "ControlGroup"),
        (shard, changed, "State", "Reason", "Started"),
        (shard, "StateChanged", "starting", "loading", "the engine was started"),
        ("", "ShardStateChanged", "a", "starting", "loading", "the engine was started"),
        (shard, changed, "Pid"),
        (shard, changed, "State", "Reason", "Ready"),
        (shard, "StateChanged", "loading", "ready", ""),
        ("", "ShardStateChanged", "a", "loading", "ready", ""),
        (shard, changed, "State", "Reason"),
        (shard, "StateChanged", "ready", "draining", "stopping"),
        ("", "ShardStateChanged", "a", "ready", "draining", "stopping"),
        (shard, changed, "Pid"),
        (shard, changed, "ExitCode", "ExitSignal"),
        (shard, changed, "State", "Reason"),
        (shard, "StateChanged", "draining", "stopped", "stopped"),
        ("", "ShardStateChanged", "a", "draining", "stopped", "stopped"),
        ("", changed, "Ends"),
    ]


def followed(seat: Seat) -> dict[str, Any]:
    """What a client knows of shard `a` that has read all signals and asked for nothing."""
    known: dict[str, Any] = {}
    for path, member, body in seat.signals:
        if member == "InterfacesAdded":
            known = dict(body[1]["org.llmgw.Node1.Shard"])
        elif member == "PropertiesChanged" and path == A:
            news, invalidated = body[1], body[2]
            assert ([name for name, value in news.items() if known[name] == value], invalidated) == ([], [])
            known |= news
    return known


async def test_a_client_that_follows_the_signals_knows_everything(world: FakeWorld, seat: Seat) -> None:
    world.probes.obstacles.say("connection refused", "answers 503", "")
    await ready(world, seat, http=True, gpus=["0"])
    assert followed(seat) == seat.shard().properties()
    world.probes.obstacles.say("busy")
    await world.until(lambda: world.node.shard("a").health == "failing")
    assert seat.told()[-1] == ("/shard/a", "PropertiesChanged", "Reason", "Health")
    assert followed(seat) == seat.shard().properties()
    world.program("a").exit(3)
    await world.until(lambda: ("", "PropertiesChanged", "Ends", "Gpus") in seat.told())
    known = followed(seat)
    assert known == seat.shard().properties()
    assert (known["State"].value, known["Health"].value, known["ExitCode"].value) == ("failed", "unknown", 3)


async def test_a_running_shard_says_everything_about_itself(world: FakeWorld, seat: Seat) -> None:
    await ready(
        world, seat, http=True, model="tiny", replica_id="r", gpus=["0"], environment={"A": "secret1"}
    )
    shard = world.node.shard("a")
    record = shard.record
    read = seat.read()
    spec = read.pop("Spec")
    assert read == {
        "Id": "a", "ReplicaId": "r", "Rank": 0, "Nodes": 1, "Engine": "command", "Model": "tiny",
        "State": "ready", "Reason": "serves tiny", "Health": "ok", "Pid": shard.pid, "ExitCode": -1,
        "ExitSignal": "", "OomKills": 0, "Started": record.started_us, "Ready": record.ready_us,
        "Endpoint": "http://127.0.0.1:8100", "Unit": unit(), "InvocationId": f"{1:032x}",
        "ControlGroup": world.group(), "Adopted": False, "Gpus": ["0"],
    }  # fmt: skip
    assert (spec["engine"], spec["environment"], spec["port"]) == ("command", ["A"], 8100)
    assert (await seat.manager.list_shards(ME)) == [seat.shard().properties()]
    assert "secret" not in repr([plain(Variant("a{sv}", one)) for one in await seat.manager.list_shards(ME)])
    assert "secret" not in repr([[plain(part) for part in body] for _, _, body in seat.signals])


@pytest.mark.parametrize(
    ("host", "address", "endpoint"),
    [
        ("127.0.0.1", "10.0.0.1", "http://127.0.0.1:8100"),
        ("10.1.1.1", "10.0.0.1", "http://10.1.1.1:8100"),
        ("0.0.0.0", "10.0.0.1", "http://10.0.0.1:8100"),
        ("::", "10.0.0.1", "http://10.0.0.1:8100"),
        ("::", "fd00::1", "http://[fd00::1]:8100"),
        ("0.0.0.0", "", "http://127.0.0.1:8100"),
        ("::1", "10.0.0.1", "http://[::1]:8100"),
    ],
)
async def test_an_endpoint_is_where_others_reach_it(
    world: FakeWorld, host: str, address: str, endpoint: str
) -> None:
    seat = Seat(world, replace(ABOUT, management_address=address))
    await world.node.start("a", world.values("a", http=True, host=host))
    assert seat.read()["Endpoint"] == endpoint


async def test_an_endpoint_follows_the_address_of_the_node(world: FakeWorld, seat: Seat) -> None:
    await ready(world, seat, "a", http=True, host="0.0.0.0")
    await ready(world, seat, "b", http=True, host="10.1.1.1", port=8101)
    seat.signals.clear()
    seat.face.looked_around(replace(ABOUT, management_address="10.9.9.9"))
    assert seat.told() == [
        ("", "PropertiesChanged", "ManagementAddress"),
        ("/shard/a", "PropertiesChanged", "Endpoint"),
    ]
    assert plain(seat.signals[1][2][1]["Endpoint"]) == "http://10.9.9.9:8100"
    assert [seat.read(f"{paths.ROOT}/shard/{id}")["Endpoint"] for id in "ab"] == [
        "http://10.9.9.9:8100",
        "http://10.1.1.1:8101",
    ]
    seat.signals.clear()
    seat.face.looked_around(replace(ABOUT, management_address="10.9.9.9"))
    assert seat.signals == []


async def test_a_shard_without_http_has_no_endpoint(world: FakeWorld, seat: Seat) -> None:
    await world.start()
    assert (seat.read()["Endpoint"], seat.read()["Gpus"]) == ("", [])


async def test_a_replaced_shard_goes_before_the_new_one_comes(world: FakeWorld, seat: Seat) -> None:
    await ready(world, seat)
    await stopped(world)
    seat.signals.clear()
    await world.start()
    assert seat.told()[:4] == [
        ("", "InterfacesRemoved", A, ["org.llmgw.Node1.Shard"]),
        ("", "InterfacesAdded", A),
        ("", "ShardStateChanged", "a", "", "pending", "accepted"),
        ("", "PropertiesChanged", "Starts"),
    ]
    assert seat.read()["ExitCode"] == -1


async def test_a_removed_shard_is_told_and_not_there_any_more(world: FakeWorld, seat: Seat) -> None:
    await ready(world, seat)
    await stopped(world)
    seat.signals.clear()
    await seat.shard().remove(ME)
    assert seat.told() == [("", "InterfacesRemoved", A, ["org.llmgw.Node1.Shard"])]
    assert await seat.manager.list_shards(ME) == []
    with pytest.raises(NoSuchShard):
        await seat.manager.get_shard(ME, "a")


async def test_what_was_adopted_is_there_and_nothing_is_told_of_it(world: FakeWorld) -> None:
    await world.run()
    await world.restart()
    seat = Seat(world)
    assert (seat.read()["State"], seat.read()["Adopted"], seat.signals) == ("ready", True, [])
    assert await seat.manager.get_shard(ME, "a") == A


async def test_claims_of_gpus_come_and_go_with_their_shard(world: FakeWorld, seat: Seat) -> None:
    def holders() -> list[str]:
        gpus: Any = plain(seat.manager.properties("Gpus")["Gpus"])
        return [gpu["shard"] for gpu in gpus]

    await ready(world, seat, "a", gpus=["0"])
    await ready(world, seat, "b", gpus=["GPU-bb"])
    assert (holders(), ("", "PropertiesChanged", "Starts", "Gpus") in seat.told()) == (["a", "b"], True)
    await stopped(world, "a")
    assert (holders(), seat.told()[-1]) == (["", "b"], ("", "PropertiesChanged", "Ends", "Gpus"))


@pytest.mark.parametrize(
    ("gpus", "holders"),
    [
        (["GPU-a"], ["a", "", ""]),
        (["GPU-b"], ["", "a", ""]),
        (["GPU-"], ["", "", ""]),
        (["0"], ["a", "", ""]),
        (["GPU-bb", "0"], ["a", "a", ""]),
        (["GPU-cc"], ["", "", "a"]),
        (["7", "MIG-1"], ["", "", ""]),
    ],
)
async def test_a_gpu_is_held_by_the_shard_that_would_see_it(
    world: FakeWorld, gpus: list[str], holders: list[str]
) -> None:
    seat = Seat(world, replace(ABOUT, gpus=(*ABOUT.gpus, Gpu(0, "GPU-cc", "MI300X", "amd", 192))))
    await world.start("a", gpus=gpus)
    told: Any = plain(seat.manager.properties("Gpus")["Gpus"])
    assert [gpu["shard"] for gpu in told] == holders


def public(port: RdmaPort) -> dict[str, object]:
    return {name: value for name, value in asdict(port).items() if name != "roce_v2"}


async def test_the_node_says_what_it_is(world: FakeWorld, seat: Seat) -> None:
    await ready(world, seat)
    await stopped(world)
    assert {name: plain(value) for name, value in seat.manager.properties().items()} == {
        "Version": "0.1", "NodeName": "node1", "ManagementAddress": "10.0.0.1",
        "ManagementInterface": "eth0", "NcclIbGidIndex": 3,
        "RdmaDevices": [public(port) for port in ABOUT.rdma],
        "Gpus": [asdict(gpu) | {"shard": ""} for gpu in ABOUT.gpus],
        "Engines": ["command", "vllm"], "Warnings": ["look here"], "Starts": 1, "Ends": {"stopped": 1},
    }  # fmt: skip


async def test_a_reload_tells_what_is_different(world: FakeWorld, seat: Seat) -> None:
    await seat.manager.reload(ME)
    seat.face.looked_around(ABOUT)
    assert (seat.reloads, seat.signals) == (1, [])
    seat.face.looked_around(replace(ABOUT, engines=("vllm",), management_address="10.0.0.9"))
    assert seat.told() == [("", "PropertiesChanged", "ManagementAddress", "Engines")]
    await world.start("a", http=True, host="0.0.0.0")
    assert seat.read()["Endpoint"] == "http://10.0.0.9:8100"


async def test_a_reload_that_is_refused_says_so(seat: Seat) -> None:
    seat.reload_fails = InvalidConfig("llmgwd.toml: agent.x: unknown key")
    with pytest.raises(InvalidConfig):
        await seat.manager.reload(ME)


async def test_a_plan_is_told_process_by_process(world: FakeWorld, seat: Seat) -> None:
    world.launcher.unavailable = EngineUnavailable("/opt/x: no such file")
    spec = {
        "engine": Variant("s", "command"),
        "command": Variant("as", ["/opt/x", "-m"]),
        "sidecars": Variant("aa{sv}", [{"name": Variant("s", "head"), "command": Variant("as", ["/bin/h"])}]),
        "waits_for_leader": Variant("b", True),
        "leader_address": Variant("s", "::1"),
        "leader_port": Variant("u", 6379),
        "environment": Variant("a{ss}", {"A": "1"}),
    }
    commands = await seat.manager.plan_shard(ME, "a", spec)
    warnings = ["EngineUnavailable: /opt/x: no such file"]
    where = {"environment": {"A": "1"}, "working_directory": str(world.folder), "warnings": warnings}
    assert [plain(Variant("a{sv}", command)) for command in commands] == [
        {"name": "head", "argv": ["/bin/h"], "waits_for": [], **where},
        {"name": "engine", "argv": ["/opt/x", "-m"], "waits_for": ["[::1]:6379"], **where},
    ]
    assert seat.signals == []


async def test_what_the_manager_does_the_shards_own_methods_do(world: FakeWorld, seat: Seat) -> None:
    values = world.values("a")
    spec = {"engine": Variant("s", "command"), "command": Variant("as", values["command"])}
    assert await seat.manager.start_shard(ME, "a", spec) == A
    await world.until(lambda: world.node.shard("a").record.state is State.READY)
    await seat.shard().drain(ME)
    assert seat.read()["State"] == "draining"
    world.logs.lines = [Line("engine", "serving", 1)]
    assert await seat.shard().tail(ME, 3) == await seat.manager.tail_shard(ME, "a", 3) == ["serving"]
    await seat.shard().stop(ME, {"timeout_seconds": Variant("u", 5)})
    await world.until(lambda: seat.read()["State"] == "stopped")
    await seat.manager.remove_shard(ME, "a")


@pytest.mark.parametrize(
    "stop",
    [
        lambda seat, options: seat.manager.stop_shard(ME, "a", options),
        lambda seat, options: seat.manager.stop_all(ME, options),
        lambda seat, options: seat.shard().stop(ME, options),
    ],
    ids=["StopShard", "StopAll", "Stop"],
)
async def test_a_stop_takes_its_options_and_no_others(
    world: FakeWorld, seat: Seat, stop: Callable[[Seat, dict[str, Variant]], Any]
) -> None:
    await ready(world, seat)
    with pytest.raises(InvalidSpec, match="timeout: unknown key"):
        await stop(seat, {"timeout": Variant("d", 1)})
    assert seat.read()["State"] == "ready"
    await stop(seat, {"timeout_seconds": Variant("d", 7), "drain_seconds": Variant("d", 0)})
    assert (seat.read()["State"], world.node.shard("a").record.stop_limit_s) == ("draining", 7)


async def test_statistics_are_those_of_each_shards_own_group(world: FakeWorld, seat: Seat) -> None:
    await ready(world, seat, http=True)
    folder = world.cgroups.root / world.group()[1:]
    (folder / "memory.current").write_text("300\n")
    (folder / "memory.stat").write_text("anon 100\nfile 200\n")
    (folder / "cpu.stat").write_text("usage_usec 5\n")
    (world.cgroups.root / "cpu.stat").write_text("usage_usec 999\n")
    held = world.scopes.hold("start")
    await world.start("b")
    first, second = [plain(Variant("a{sv}", one)) for one in await seat.manager.get_statistics(ME)]
    assert first.pop("probe_seconds") > 0
    assert first == {
        "id": "a", "memory_current": 300, "memory_anon": 100, "memory_file": 200, "cpu_usage_usec": 5,
        "starts": 1,
    }  # fmt: skip
    assert second == {"id": "b", "probe_seconds": 0, "starts": 1}
    held.released.set()


async def test_orphans_are_listed_and_killed_by_their_unit(world: FakeWorld, seat: Seat) -> None:
    pid = stranger()
    world.scopes.put(unit("x"), pid)
    (orphan,) = await seat.manager.list_orphans(ME)
    assert plain(Variant("a{sv}", orphan)) == {
        "unit": unit("x"),
        "control_group": world.group("x"),
        "pids": [pid],
        "id": "x",
    }
    await seat.manager.kill_orphan(ME, unit("x"))
    await world.until(lambda: not world.scopes.exists(unit("x")))


async def test_a_reason_that_no_bus_carries_costs_nobody_anything(
    world: FakeWorld, seat: Seat, caplog: pytest.LogCaptureFixture
) -> None:
    await ready(world, seat)
    world.node.shard("a").note(reason="a\0b")
    assert caplog.records[-1].message == "shard a: its change could not be told"
    await stopped(world)
    assert seat.read()["State"] == "stopped"
