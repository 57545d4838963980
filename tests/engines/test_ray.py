from dataclasses import replace
from typing import Any

import pytest

from llmgwd.engines import ray
from llmgwd.engines.plan import Process
from tests.engines.specs import AMD, LEADER, NOWHERE, WORKER, spec

OVER_TWO: dict[str, Any] = {
    "model": "m",
    "nodes": 2,
    "leader_address": "10.0.0.1",
    "leader_port": 6379,
    "replica_id": "r",
}
RAYS = "is one of those that Ray's workers listen on (10002 to 19999)"
LEADING = OVER_TWO | {"rank": 0}
FOLLOWING = OVER_TWO | {"rank": 1}


def head(**values: Any) -> Process:
    return ray.head(spec("vllm", **LEADING | values), LEADER, {})


def option(process: Process, name: str) -> str:
    return process.argv[process.argv.index(name) + 1]


@pytest.mark.parametrize(
    ("executable", "program"),
    [("vllm", "ray"), ("/opt/vllm/bin/vllm", "/opt/vllm/bin/ray"), ("/vllm", "/ray")],
)
def test_it_is_the_ray_that_lies_beside_the_engine(executable: str, program: str) -> None:
    assert head(executable=executable).argv[:2] == (program, "start")


def test_a_head_waits_for_nobody_and_a_worker_for_the_head() -> None:
    worker = ray.worker(spec("vllm", **FOLLOWING), WORKER, {})
    waits = {process.name: process.waits_for for process in (head(), worker)}
    assert waits == {"ray-head": (), "engine": ("10.0.0.1:6379",)}


@pytest.mark.parametrize(
    ("port", "workers"),
    [
        (10_001, ()),
        (10_002, ("--min-worker-port", "10003", "--max-worker-port", "19999")),
        (15_000, ("--min-worker-port", "15001", "--max-worker-port", "19999")),
        (15_001, ("--min-worker-port", "10002", "--max-worker-port", "15000")),
        (19_999, ("--min-worker-port", "10002", "--max-worker-port", "19998")),
        (20_000, ()),
    ],
)
def test_a_heads_port_among_its_workers_leaves_them_the_longer_side(
    port: int, workers: tuple[str, ...]
) -> None:
    argv = head(leader_port=port).argv
    rest = argv[argv.index("--dashboard-agent-listen-port") + 2 : argv.index("--include-dashboard")]
    assert rest == workers


@pytest.mark.parametrize(
    ("replica", "working_directory", "directory"),
    [
        ("r", "/var/lib/llmgw", "/var/lib/llmgw/ray-454349e4"),
        ("a", "/var/lib/llmgw", "/var/lib/llmgw/ray-ca978112"),
        ("r", "/", "/ray-454349e4"),
        ("r", "/" + 25 * "w", "/" + 25 * "w" + "/ray-454349e4"),
        ("r", "/" + 26 * "w", "/tmp/llmgw-ray-454349e4"),
        ("r", "/" + 13 * "ü", "/tmp/llmgw-ray-454349e4"),
    ],
)
def test_each_replica_has_a_directory_whose_sockets_names_are_short_enough(
    replica: str, working_directory: str, directory: str
) -> None:
    made = head(replica_id=replica, working_directory=working_directory)
    assert option(made, "--temp-dir") == directory
    socket = f"{directory}/ray/session_2026-12-01_14-00-00_123456_4194304/sockets/plasma_store"
    assert len(socket.encode()) <= 107


def test_every_rank_of_a_replica_has_the_same_directory_whatever_its_shard_is_called() -> None:
    worker = ray.worker(spec("vllm", **FOLLOWING), WORKER, {})
    assert option(worker, "--temp-dir") == option(head(), "--temp-dir")


def test_hidden_gpus_of_amd_leave_out_the_variable_with_which_ray_does_not_run() -> None:
    made = ray.head(spec("vllm", **LEADING, gpus=[]), AMD, {})
    hidden = {name: value for name, value in made.environment.items() if name.endswith("VISIBLE_DEVICES")}
    assert hidden == {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": ""}


def test_what_the_engine_adds_wins_over_rays_own_and_the_configuration_over_both() -> None:
    made = ray.head(
        spec("vllm", **LEADING, environment={"C": "spec"}),
        replace(NOWHERE, gpus=()),
        {"B": "configured", "C": "configured"},
        {"PYTHONUNBUFFERED": "", "B": "computed"},
    )
    assert made.environment == {
        "RAY_NUM_REDIS_GET_RETRIES": "60",
        "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "0",
        "RAY_USAGE_STATS_ENABLED": "0",
        "PYTHONUNBUFFERED": "",
        "B": "configured",
        "C": "spec",
    }


def test_a_node_without_an_address_is_planned_all_the_same() -> None:
    made = ray.worker(spec("vllm", **FOLLOWING), NOWHERE, {})
    assert option(made, "--node-ip-address") == "MANAGEMENT_ADDRESS"


@pytest.mark.parametrize(
    ("leader_port", "port", "texts"),
    [
        (6379, 20_000, []),
        (10_001, 20_000, ["leader_port: 10001 is where Ray's client server listens"]),
        (10_002, 20_000, [f"leader_port: 10002 {RAYS}"]),
        (6379, 19_999, [f"port: 19999 {RAYS}"]),
        (10_002, 19_999, [f"leader_port: 10002 {RAYS}", f"port: 19999 {RAYS}"]),
    ],
)
def test_ports_that_ray_itself_takes_are_a_warning(leader_port: int, port: int, texts: list[str]) -> None:
    made = spec("vllm", **LEADING | {"leader_port": leader_port, "port": port})
    assert list(ray.warn_of_ports(made)) == texts


def test_the_client_server_is_the_heads_alone() -> None:
    made = spec("vllm", **LEADING | {"leader_port": 10_001, "rank": 1})
    assert list(ray.warn_of_ports(made)) == []
