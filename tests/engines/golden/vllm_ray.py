"""vLLM over nodes by Ray, whose command line is that of 2.60 (ray start)."""

from collections.abc import Mapping

from llmgwd.engines.plan import Http, Plan, Process
from tests.engines.golden.vllm_parts import (
    FOLLOWING,
    FOLLOWING6,
    FOUR_GPUS,
    HOME,
    LEADER_6,
    LEADING,
    LEADING6,
    LISTEN,
    ON_LEADER,
    ON_WORKER,
    SERVE,
    SERVES,
    UNBUFFERED,
    WORKER_6,
    sizes,
)
from tests.engines.specs import LEADER, LEADER6, WORKER, WORKER6, Case

# fmt: off
RAY_DIRECTORY = ("--temp-dir", "/var/lib/llmgw/ray-454349e4")
RAY_AGENT = ("--dashboard-agent-listen-port", "0")
RAY_HEADS_OWN = (
    "--include-dashboard", "false",
    "--dashboard-port", "0",
    "--disable-usage-stats",
)
# fmt: on
PATIENCE = {"RAY_NUM_REDIS_GET_RETRIES": "60"}
RAYS_OWN = PATIENCE | {"RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "0", "RAY_USAGE_STATS_ENABLED": "0"}
RAY = {"executor": "ray", "tensor_parallel": 4}


def ray_leader(
    head: tuple[str, ...],
    engine: tuple[str, ...],
    *,
    of_head: Mapping[str, str],
    of_engine: Mapping[str, str],
    address: str = "10.0.0.1:5005",
    ports: tuple[int, ...] = (8000, 5005),
    warnings: tuple[str, ...] = (),
) -> Plan:
    return Plan(
        (
            Process("ray-head", head, of_head, HOME),
            Process("engine", engine, {"RAY_ADDRESS": address, **PATIENCE, **of_engine}, HOME, (address,)),
        ),
        ports,
        SERVES,
        warnings,
    )


def ray_worker(*argv: str, environment: Mapping[str, str], leader: str = "10.0.0.1:5005") -> Plan:
    return Plan((Process("engine", argv, environment, HOME, (leader,)),), (), None, ())


OVER_RAY: Mapping[str, Case] = {
    "Ray, leader": Case(
        facts=LEADER,
        values=LEADING | RAY | {"gpus": ["0", "1", "2", "3"]},
        plan=ray_leader(
            (
                *("ray", "start", "--head"),
                *("--port", "5005"),
                "--block",
                *("--node-ip-address", "10.0.0.1"),
                *("--num-gpus", "4"),
                *RAY_DIRECTORY,
                *RAY_AGENT,
                *RAY_HEADS_OWN,
            ),
            (*SERVE, *LISTEN, *sizes(4), "--distributed-executor-backend", "ray"),
            of_head=ON_LEADER | RAYS_OWN | FOUR_GPUS,
            of_engine=UNBUFFERED | FOUR_GPUS | {"VLLM_HOST_IP": "10.0.0.1"},
        ),
    ),
    "Ray, worker": Case(
        facts=WORKER,
        values=FOLLOWING | RAY | {"gpus": ["0", "1", "2", "3"]},
        plan=ray_worker(
            *("ray", "start"),
            *("--address", "10.0.0.1:5005"),
            "--block",
            *("--node-ip-address", "10.0.0.2"),
            *("--num-gpus", "4"),
            *RAY_DIRECTORY,
            *RAY_AGENT,
            environment=ON_WORKER | RAYS_OWN | FOUR_GPUS,
        ),
    ),
    "Ray, leader, IPv6, GPUs as Ray finds them": Case(
        facts=LEADER6,
        values=LEADING6 | RAY,
        plan=ray_leader(
            (
                *("ray", "start", "--head"),
                *("--port", "5005"),
                "--block",
                *("--node-ip-address", "fd00::1"),
                *RAY_DIRECTORY,
                *RAY_AGENT,
                *RAY_HEADS_OWN,
            ),
            (*SERVE, *LISTEN, *sizes(4), "--distributed-executor-backend", "ray"),
            of_head=LEADER_6 | RAYS_OWN,
            of_engine=UNBUFFERED | {"VLLM_HOST_IP": "fd00::1"},
            address="[fd00::1]:5005",
        ),
    ),
    "Ray, worker, IPv6, no GPU": Case(
        facts=WORKER6,
        values=FOLLOWING6 | RAY | {"gpus": []},
        plan=ray_worker(
            *("ray", "start"),
            *("--address", "[fd00::1]:5005"),
            "--block",
            *("--node-ip-address", "fd00::2"),
            *("--num-gpus", "0"),
            *RAY_DIRECTORY,
            *RAY_AGENT,
            environment=WORKER_6 | RAYS_OWN | {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": ""},
            leader="[fd00::1]:5005",
        ),
    ),
    "Ray of a virtual environment, ports among its workers', spec and configuration win": Case(
        facts=LEADER,
        values=LEADING
        | RAY
        | {
            "executable": "/opt/vllm/bin/vllm",
            "leader_port": 12000,
            "port": 10001,
            "args": ["--enforce-eager"],
            "environment": {"NCCL_DEBUG": "INFO"},
        },
        environment={"RAY_USAGE_STATS_ENABLED": "1"},
        plan=Plan(
            (
                Process(
                    "ray-head",
                    (
                        *("/opt/vllm/bin/ray", "start", "--head"),
                        *("--port", "12000"),
                        "--block",
                        *("--node-ip-address", "10.0.0.1"),
                        *RAY_DIRECTORY,
                        *RAY_AGENT,
                        *("--min-worker-port", "12001"),
                        *("--max-worker-port", "19999"),
                        *RAY_HEADS_OWN,
                    ),
                    ON_LEADER | RAYS_OWN | {"NCCL_DEBUG": "INFO", "RAY_USAGE_STATS_ENABLED": "1"},
                    HOME,
                ),
                Process(
                    "engine",
                    (
                        *("/opt/vllm/bin/vllm", "serve", "org/m"),
                        *("--served-model-name", "org/m"),
                        *("--host", "127.0.0.1"),
                        *("--port", "10001"),
                        *sizes(4),
                        *("--distributed-executor-backend", "ray"),
                        "--enforce-eager",
                    ),
                    UNBUFFERED
                    | {
                        "VLLM_HOST_IP": "10.0.0.1",
                        "RAY_ADDRESS": "10.0.0.1:12000",
                        **PATIENCE,
                        "NCCL_DEBUG": "INFO",
                        "RAY_USAGE_STATS_ENABLED": "1",
                    },
                    HOME,
                    ("10.0.0.1:12000",),
                ),
            ),
            (10001, 12000),
            Http("http://127.0.0.1:10001", "/health", "org/m"),
            (
                "leader_port: 12000 is one of those that Ray's workers listen on (10002 to 19999)",
                "port: 10001 is where Ray's client server listens",
            ),
        ),
    ),
}
