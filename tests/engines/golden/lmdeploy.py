"""Options as of LMDeploy 0.18.0 (cli/serve.py, cli/utils.py) and Ray 2.60 (ray start)."""

from collections.abc import Mapping

from llmgwd.engines.plan import Http, Plan, Process
from tests.engines.specs import LEADER, LEADER6, NO_GPU, WORKER, Case

HOME = "/var/lib/llmgw"
HTTP = Http("http://127.0.0.1:23333", "/health", "org/m", timeout_s=12.0)
SIGN_OF_LIFE = Http("http://127.0.0.1:23333", "/health", "", timeout_s=12.0, is_endpoint=False)
RAY_DIRECTORY = "/var/lib/llmgw/ray-454349e4"
ALONE = {
    "RAY_ADDRESS": "local",
    "RAY_TMPDIR": RAY_DIRECTORY,
    "RAY_USAGE_STATS_ENABLED": "0",
    "PYTHONUNBUFFERED": "1",
}
ON_LEADER = {
    "NCCL_SOCKET_FAMILY": "AF_INET",
    "NCCL_SOCKET_IFNAME": "=eth0",
    "GLOO_SOCKET_IFNAME": "eth0",
    "TP_SOCKET_IFNAME": "eth0",
    "NCCL_IB_GID_INDEX": "3",
}
ON_WORKER = {
    **ON_LEADER,
    "NCCL_SOCKET_IFNAME": "=bond0.12",
    "GLOO_SOCKET_IFNAME": "bond0.12",
    "TP_SOCKET_IFNAME": "bond0.12",
}
PATIENCE = {"RAY_NUM_REDIS_GET_RETRIES": "60"}
OF_RAY = {
    **PATIENCE,
    "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    "PYTHONUNBUFFERED": "1",
}
TWO_GPUS = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "0,1"}
ON_HEAD = {**TWO_GPUS, **ON_LEADER, **OF_RAY}

# fmt: off
SERVE = (
    "lmdeploy", "serve", "api_server", "org/m",
    "--model-name", "org/m",
    "--server-name", "127.0.0.1",
    "--server-port", "23333",
)
RAY_NODE = (
    "--temp-dir", RAY_DIRECTORY,
    "--dashboard-agent-listen-port", "0",
)
RAY_HEAD_ALONE = (
    "--include-dashboard", "false",
    "--dashboard-port", "0",
    "--disable-usage-stats",
)
# fmt: on

# fmt: off
EVERY_KEY = (
    "/opt/lmdeploy/bin/lmdeploy", "serve", "api_server", "/models/m",
    "--model-name", "m",
    "--server-name", "::",
    "--server-port", "8000",
    "--tp", "2",
    "--backend", "turbomind",
    "--session-len", "8192",
)
BACKEND = (
    "--tp", "4",
    "--backend", "pytorch",
    "--distributed-executor-backend", "ray",
)
HEAD = (
    "ray", "start",
    "--head",
    "--port", "6379",
    "--block",
    "--node-ip-address", "10.0.0.1",
    "--num-gpus", "2",
    *RAY_NODE,
    *RAY_HEAD_ALONE,
)
HEAD_AMONG_WORKERS = (
    "ray", "start",
    "--head",
    "--port", "12000",
    "--block",
    "--node-ip-address", "10.0.0.1",
    "--num-gpus", "2",
    *RAY_NODE,
    "--min-worker-port", "12001",
    "--max-worker-port", "19999",
    *RAY_HEAD_ALONE,
)
RAY_WORKER = (
    "/opt/lmdeploy/bin/ray", "start",
    "--address", "10.0.0.1:6379",
    "--block",
    "--node-ip-address", "10.0.0.2",
    "--num-gpus", "2",
    *RAY_NODE,
)
# fmt: on

M = {"model": "org/m", "replica_id": "r"}
OVER_TWO = {**M, "nodes": 2, "leader_address": "10.0.0.1", "leader_port": 29500, "tensor_parallel": 4}
BY_RAY = {**OVER_TWO, "executor": "ray", "leader_port": 6379, "gpus": ["GPU-0", "1"]}


def meeting(rank: int, at: str = "10.0.0.1:29500") -> tuple[str, ...]:
    # fmt: off
    return (
        "--backend", "turbomind",
        "--nnodes", "2",
        "--node-rank", str(rank),
        "--dist-init-addr", at,
    )
    # fmt: on


def made(
    *argv: str,
    environment: Mapping[str, str] = ALONE,
    ports: tuple[int, ...] = (23333,),
    http: Http | None = HTTP,
    working_directory: str = HOME,
    warnings: tuple[str, ...] = (),
) -> Plan:
    process = Process("engine", argv, environment, working_directory)
    return Plan(processes=(process,), ports=ports, http=http, warnings=warnings)


CASES: Mapping[str, Case] = {
    "a model alone, with every default": Case(
        values=M,
        plan=made(*SERVE, "--tp", "1"),
    ),
    "one node, every key": Case(
        values={
            "model": "/models/m",
            "replica_id": "r",
            "served_model_name": "m",
            "host": "::",
            "port": 8000,
            "gpus": ["GPU-1", "0"],
            "tensor_parallel": 2,
            "health_path": "/v1/health",
            "args": ["--session-len", "8192"],
            "environment": {"TM_LOG_LEVEL": "INFO", "RAY_ADDRESS": "10.0.0.7:6379"},
            "executable": "/opt/lmdeploy/bin/lmdeploy",
            "working_directory": "/models",
        },
        args=("--backend", "turbomind"),
        environment={"TM_LOG_LEVEL": "ERROR", "HF_HUB_OFFLINE": "1"},
        plan=made(
            *EVERY_KEY,
            environment={
                **ALONE,
                "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
                "CUDA_VISIBLE_DEVICES": "GPU-1,0",
                "TM_LOG_LEVEL": "INFO",
                "HF_HUB_OFFLINE": "1",
                "RAY_TMPDIR": "/models/ray-454349e4",
                "RAY_ADDRESS": "10.0.0.7:6379",
            },
            ports=(8000,),
            http=Http("http://[::1]:8000", "/v1/health", "m", timeout_s=12.0),
            working_directory="/models",
        ),
    ),
    "one node, PyTorch, no GPU shown, nothing asked": Case(
        values={**M, "gpus": [], "health_path": "", "args": ["--backend", "pytorch", "--device", "ascend"]},
        facts=NO_GPU,
        plan=made(
            *(*SERVE, "--tp", "1", "--backend", "pytorch", "--device", "ascend"),
            environment={**ALONE, "CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": ""},
            http=None,
        ),
    ),
    "one node, PyTorch's tensors and experts in parallel": Case(
        values={**M, "tensor_parallel": 2, "gpus": ["0", "1"], "args": ["--backend=pytorch", "--ep", "2"]},
        plan=made(
            *(*SERVE, "--tp", "2", "--backend=pytorch", "--ep", "2"), environment={**ALONE, **TWO_GPUS}
        ),
    ),
    "one node, data parallel in TurboMind": Case(
        values={**M, "tensor_parallel": 1, "data_parallel": 2, "gpus": ["0", "1"]},
        plan=made(*SERVE, "--tp", "1", "--dp", "2", environment={**ALONE, **TWO_GPUS}),
    ),
    "one node, more GPUs than it takes": Case(
        values={**M, "gpus": ["0", "1"]},
        plan=made(
            *(*SERVE, "--tp", "1"),
            environment={**ALONE, **TWO_GPUS},
            warnings=(
                (
                    "gpus: 2 named, but tensor_parallel 1 x pipeline_parallel 1 x data_parallel 1 "
                    "on 1 node takes 1"
                ),
            ),
        ),
    ),
    "leader of two": Case(
        values={**OVER_TWO, "rank": 0},
        facts=LEADER,
        plan=made(
            *(*SERVE, "--tp", "4", *meeting(0)),
            environment={**ALONE, **ON_LEADER},
            ports=(23333, 29500),
        ),
    ),
    "worker of two, named mp, by the leader's name": Case(
        values={
            **OVER_TWO,
            "rank": 1,
            "executor": "mp",
            "leader_address": "gpu1.example.net",
            "gpus": ["0", "1"],
        },
        facts=WORKER,
        plan=made(
            *(*SERVE, "--tp", "4", *meeting(1, "gpu1.example.net:29500")),
            environment={**ALONE, **ON_WORKER, **TWO_GPUS},
            http=SIGN_OF_LIFE,
        ),
    ),
    "leader of two, at another's address and anybody's port": Case(
        values={**OVER_TWO, "rank": 0, "leader_address": "10.0.0.9", "leader_port": 40000},
        facts=LEADER6,
        plan=made(
            *(*SERVE, "--tp", "4", *meeting(0, "10.0.0.9:40000")),
            environment={
                **ALONE,
                "NCCL_SOCKET_FAMILY": "AF_INET6",
                "NCCL_SOCKET_IFNAME": "=eth0",
                "GLOO_SOCKET_IFNAME": "eth0",
                "TP_SOCKET_IFNAME": "eth0",
            },
            ports=(23333, 40000),
            warnings=(
                "leader_address: this node is to be the leader and does not hold 10.0.0.9",
                (
                    "leader_port: 40000 is one of those that the kernel gives to anybody "
                    "(32768 to 60999, net.ipv4.ip_local_port_range)"
                ),
            ),
        ),
    ),
    "leader of two by Ray": Case(
        values={**BY_RAY, "rank": 0, "args": ["--log-level", "INFO"]},
        environment={"HF_HUB_OFFLINE": "1"},
        facts=LEADER,
        plan=Plan(
            processes=(
                Process("ray-head", HEAD, {**ON_HEAD, "HF_HUB_OFFLINE": "1"}, HOME),
                Process(
                    "engine",
                    (*SERVE, *BACKEND, "--log-level", "INFO"),
                    {
                        **TWO_GPUS,
                        "RAY_ADDRESS": "10.0.0.1:6379",
                        **PATIENCE,
                        "PYTHONUNBUFFERED": "1",
                        "HF_HUB_OFFLINE": "1",
                    },
                    HOME,
                    waits_for=("10.0.0.1:6379",),
                ),
            ),
            ports=(23333, 6379),
            http=HTTP,
        ),
    ),
    "worker of two by Ray": Case(
        values={**BY_RAY, "rank": 1, "executable": "/opt/lmdeploy/bin/lmdeploy"},
        facts=WORKER,
        plan=Plan(
            processes=(
                Process(
                    "engine",
                    RAY_WORKER,
                    {**TWO_GPUS, **ON_WORKER, **OF_RAY},
                    HOME,
                    waits_for=("10.0.0.1:6379",),
                ),
            ),
            ports=(),
            http=None,
        ),
    ),
    "leader of two by Ray, ports among its workers'": Case(
        values={**BY_RAY, "rank": 0, "port": 10001, "leader_port": 12000, "gpus": ["0", "1"]},
        facts=LEADER,
        plan=Plan(
            processes=(
                Process("ray-head", HEAD_AMONG_WORKERS, ON_HEAD, HOME),
                Process(
                    "engine",
                    (*SERVE[:-1], "10001", *BACKEND),
                    {**TWO_GPUS, "RAY_ADDRESS": "10.0.0.1:12000", **PATIENCE, "PYTHONUNBUFFERED": "1"},
                    HOME,
                    waits_for=("10.0.0.1:12000",),
                ),
            ),
            ports=(10001, 12000),
            http=Http("http://127.0.0.1:10001", "/health", "org/m", timeout_s=12.0),
            warnings=(
                "leader_port: 12000 is one of those that Ray's workers listen on (10002 to 19999)",
                "port: 10001 is where Ray's client server listens",
            ),
        ),
    ),
}
