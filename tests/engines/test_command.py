from llmgwd.engines.plan import Http, Plan, Process
from tests.engines.specs import plan

RAY = ["/opt/ray", "start", "--head", "--block"]


def test_a_command_alone_is_ready_by_staying_alive() -> None:
    made = plan("command", command=["/bin/sleep", "100"])
    assert made == Plan(
        processes=(Process("engine", ("/bin/sleep", "100"), {}, "/var/lib/llmgw", ()),),
        ports=(),
        http=None,
        warnings=(),
    )


def test_sidecars_come_first_in_their_order_and_share_the_environment() -> None:
    made = plan(
        "command",
        configured_environment={"A": "configured", "B": "configured"},
        command=["serve", "a b", "*", ""],
        sidecars=[{"name": "ray-head", "command": RAY}, {"name": "exporter", "command": ["exporter"]}],
        model="org/m",
        host="0.0.0.0",
        port=9000,
        health_path="/up",
        gpus=["GPU-1"],
        environment={"B": "spec"},
        working_directory="/srv",
    )
    environment = {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": "GPU-1",
        "A": "configured",
        "B": "spec",
    }
    assert made == Plan(
        processes=(
            Process("ray-head", tuple(RAY), environment, "/srv", ()),
            Process("exporter", ("exporter",), environment, "/srv", ()),
            Process("engine", ("serve", "a b", "*", ""), environment, "/srv", ()),
        ),
        ports=(9000,),
        http=Http("http://127.0.0.1:9000", "/up", "org/m"),
        warnings=(),
    )


def test_without_a_name_the_model_is_not_asked_for() -> None:
    made = plan("command", command=["serve"], port=9000, health_path="/")
    assert made.http == Http("http://127.0.0.1:9000", "/", "")


def test_the_first_process_of_the_leader_never_waits_and_what_follows_it_does() -> None:
    made = plan(
        "command",
        command=["serve"],
        waits_for_leader=True,
        sidecars=[
            {"name": "head", "command": ["head"], "waits_for_leader": True},
            {"name": "joins", "command": ["joins"], "waits_for_leader": True},
            {"name": "free", "command": ["free"]},
        ],
        leader_address="10.0.0.1",
        leader_port=6379,
    )
    waits = {process.name: process.waits_for for process in made.processes}
    leader = ("10.0.0.1:6379",)
    assert waits == {"head": (), "joins": leader, "free": (), "engine": leader}
    assert made.ports == (6379,)


def test_a_leader_without_sidecars_never_waits() -> None:
    made = plan(
        "command",
        command=["serve"],
        waits_for_leader=True,
        nodes=2,
        rank=0,
        leader_address="10.0.0.1",
        leader_port=6379,
    )
    assert made.processes[0].waits_for == ()
    assert made.ports == (6379,)


def test_every_process_of_another_rank_waits_if_it_says_so_and_claims_no_port_of_the_leader() -> None:
    made = plan(
        "command",
        command=["serve"],
        waits_for_leader=True,
        sidecars=[{"name": "worker", "command": ["worker"], "waits_for_leader": True}],
        nodes=2,
        rank=1,
        leader_address="fd00::1",
        leader_port=6379,
    )
    assert [process.waits_for for process in made.processes] == [("[fd00::1]:6379",), ("[fd00::1]:6379",)]
    assert made.ports == ()


def test_a_leader_that_meets_the_others_where_it_serves_claims_one_port() -> None:
    made = plan(
        "command",
        command=["serve"],
        port=9000,
        nodes=2,
        rank=0,
        leader_address="10.0.0.1",
        leader_port=9000,
    )
    assert made.ports == (9000,)


def test_nobody_meets_at_a_leader_that_nobody_waits_for() -> None:
    made = plan("command", command=["serve"], port=9000, leader_address="10.0.0.1", leader_port=6379)
    assert made.ports == (9000,)
