"""Options as of SGLang 0.5.23 (server_args.py and the modules that it takes its fields from)."""

from collections.abc import Mapping

from llmgwd.engines.plan import Http, Plan, Process
from tests.engines.specs import AMD, LEADER, LEADER6, NO_GPU, NOWHERE, THIRD, WORKER, WORKER6, Case

HOME = "/var/lib/llmgw"
UNBUFFERED = {"PYTHONUNBUFFERED": "1"}
HTTP = Http("http://127.0.0.1:30000", "/health", "org/m", timeout_s=25.0)
SIGN_OF_LIFE = Http("http://127.0.0.1:30000", "/health", "", is_endpoint=False)
METRICS = "--enable-metrics"

# fmt: off
LISTEN = (
    "--model-path", "org/m",
    "--served-model-name", "org/m",
    "--host", "127.0.0.1",
    "--port", "30000",
)
# fmt: on

OVER_TWO = {"model": "org/m", "nodes": 2, "leader_address": "10.0.0.1", "leader_port": 29500}
OVER_TWO6 = {**OVER_TWO, "leader_address": "fd00::1"}
ON_LEADER = {
    "NCCL_SOCKET_FAMILY": "AF_INET",
    "NCCL_SOCKET_IFNAME": "=eth0",
    "GLOO_SOCKET_IFNAME": "eth0",
    "TP_SOCKET_IFNAME": "eth0",
    "NCCL_IB_GID_INDEX": "3",
    "SGLANG_HOST_IP": "10.0.0.1",
    **UNBUFFERED,
}
ON_WORKER = {
    **ON_LEADER,
    "NCCL_SOCKET_IFNAME": "=bond0.12",
    "GLOO_SOCKET_IFNAME": "bond0.12",
    "TP_SOCKET_IFNAME": "bond0.12",
    "SGLANG_HOST_IP": "10.0.0.2",
}
ON_THIRD = {
    **ON_LEADER,
    "NCCL_SOCKET_IFNAME": "=br0",
    "GLOO_SOCKET_IFNAME": "br0",
    "TP_SOCKET_IFNAME": "br0",
    "SGLANG_HOST_IP": "10.0.0.3",
}


def over_ipv6(variables: Mapping[str, str], address: str) -> dict[str, str]:
    without = {name: value for name, value in variables.items() if name != "NCCL_IB_GID_INDEX"}
    return {**without, "NCCL_SOCKET_FAMILY": "AF_INET6", "SGLANG_HOST_IP": address}


def sizes(tensor: int = 1, pipeline: int = 1, data: int = 1) -> tuple[str, ...]:
    return (
        "--tp-size", str(tensor),
        "--pp-size", str(pipeline),
        "--dp-size", str(data),
    )  # fmt: skip


def meeting(rank: int, *, at: str = "10.0.0.1:29500", nodes: int = 2) -> tuple[str, ...]:
    return (
        "--dist-init-addr", at,
        "--nnodes", str(nodes),
        "--node-rank", str(rank),
    )  # fmt: skip


def made(
    *argv: str,
    environment: Mapping[str, str] = UNBUFFERED,
    ports: tuple[int, ...] = (30000,),
    http: Http | None = HTTP,
    working_directory: str = HOME,
    warnings: tuple[str, ...] = (),
) -> Plan:
    process = Process("engine", argv, environment, working_directory)
    return Plan(processes=(process,), ports=ports, http=http, warnings=warnings)


SERVE = ("sglang", "serve", *LISTEN)
# fmt: off
EVERY_KEY = (
    "/opt/sglang/bin/sglang", "serve",
    "--model-path", "/models/m",
    "--served-model-name", "m",
    "--host", "fd00::1",
    "--port", "8000",
    *sizes(2, 2, 2),
    METRICS,
    "--mem-fraction-static", "0.8",
    "--context-length", "8192",
)
# fmt: on

CASES: Mapping[str, Case] = {
    "a model alone, with every default": Case(
        values={"model": "org/m"},
        plan=made(*SERVE, *sizes(), METRICS),
    ),
    "one node, every key": Case(
        values={
            "model": "/models/m",
            "served_model_name": "m",
            "host": "fd00::1",
            "port": 8000,
            "gpus": [f"GPU-{index}" for index in (1, 0, 3, 2, 5, 4, 7, 6)],
            "tensor_parallel": 2,
            "pipeline_parallel": 2,
            "data_parallel": 2,
            "health_path": "/health_generate",
            "args": ["--context-length", "8192"],
            "environment": {"SGLANG_CACHE_DIR": "/own"},
            "executable": "/opt/sglang/bin/sglang",
            "working_directory": "/models",
        },
        args=("--mem-fraction-static", "0.8"),
        environment={"SGLANG_CACHE_DIR": "/all", "HF_HUB_OFFLINE": "1"},
        plan=made(
            *EVERY_KEY,
            environment={
                "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
                "CUDA_VISIBLE_DEVICES": "1,0,3,2,5,4,7,6",
                "SGLANG_CACHE_DIR": "/own",
                "HF_HUB_OFFLINE": "1",
                **UNBUFFERED,
            },
            ports=(8000,),
            http=Http("http://[fd00::1]:8000", "/health_generate", "m", timeout_s=25.0),
            working_directory="/models",
        ),
    ),
    "a Python instead of its program": Case(
        values={"model": "org/m", "executable": "/opt/sglang/bin/python3.12"},
        plan=made("/opt/sglang/bin/python3.12", "-m", "sglang.launch_server", *LISTEN, *sizes(), METRICS),
    ),
    "one node, any address, nothing asked": Case(
        values={"model": "org/m", "host": "0.0.0.0", "health_path": ""},
        plan=made(
            *("0.0.0.0" if word == "127.0.0.1" else word for word in SERVE), *sizes(), METRICS, http=None
        ),
    ),
    "one node, no GPU shown": Case(
        values={"model": "org/m", "gpus": [], "args": ["--device", "cpu"]},
        facts=NO_GPU,
        plan=made(
            *(*SERVE, *sizes(), METRICS, "--device", "cpu"),
            environment={"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": "", **UNBUFFERED},
        ),
    ),
    "one node, AMD, more GPUs than it takes": Case(
        values={"model": "org/m", "gpus": ["GPU-2", "3"]},
        facts=AMD,
        plan=made(
            *(*SERVE, *sizes(), METRICS),
            environment={"HIP_VISIBLE_DEVICES": "2,3", "CUDA_VISIBLE_DEVICES": "2,3", **UNBUFFERED},
            warnings=(
                (
                    "gpus: 2 named, but tensor_parallel 1 x pipeline_parallel 1 x data_parallel 1 "
                    "on 1 node takes 1"
                ),
            ),
        ),
    ),
    "one node, a model in an object store": Case(
        values={"model": "s3://bucket/m"},
        plan=made(
            *("s3://bucket/m" if word == "org/m" else word for word in SERVE),
            *(*sizes(), METRICS),
            http=Http("http://127.0.0.1:30000", "/health", "s3://bucket/m", timeout_s=25.0),
        ),
    ),
    "one node, DP attention": Case(
        values={
            "model": "org/m",
            "tensor_parallel": 2,
            "data_parallel": 2,
            "gpus": ["0", "1"],
            "args": ["--enable-dp-attention"],
        },
        plan=made(
            *(*SERVE, *sizes(2, 1, 2), METRICS, "--enable-dp-attention"),
            environment={
                "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
                "CUDA_VISIBLE_DEVICES": "0,1",
                **UNBUFFERED,
            },
            ports=(30000, 30233, 30234, 30235, 30236, 30237, 30238, 30239, 30013),
        ),
    ),
    "one node, DP attention at a high port": Case(
        values={"model": "org/m", "port": 65500, "tensor_parallel": 2, "args": ["--attn-dp-size=2"]},
        plan=made(
            *("65500" if word == "30000" else word for word in SERVE),
            *(*sizes(2), METRICS, "--attn-dp-size=2"),
            ports=(65500, 65267, 65268, 65269, 65270, 65271, 65272, 65273, 65513),
            http=Http("http://127.0.0.1:65500", "/health", "org/m", timeout_s=25.0),
        ),
    ),
    "leader of two": Case(
        values={**OVER_TWO, "rank": 0, "tensor_parallel": 4, "pipeline_parallel": 2},
        facts=LEADER,
        plan=made(
            *(*SERVE, *sizes(4, 2), *meeting(0), METRICS),
            environment=ON_LEADER,
            ports=(30000, 29500),
        ),
    ),
    "worker of two": Case(
        values={**OVER_TWO, "rank": 1, "tensor_parallel": 4, "pipeline_parallel": 2},
        facts=WORKER,
        plan=made(
            *(*SERVE, *sizes(4, 2), *meeting(1), METRICS),
            environment=ON_WORKER,
            http=SIGN_OF_LIFE,
        ),
    ),
    "third of three, GPUs named, by the leader's name": Case(
        values={
            **OVER_TWO,
            "leader_address": "gpu1.example.net",
            "nodes": 3,
            "rank": 2,
            "host": "::",
            "pipeline_parallel": 3,
            "tensor_parallel": 2,
            "gpus": ["GPU-6", "GPU-7"],
            "health_path": "/ready",
        },
        facts=THIRD,
        plan=made(
            *("::" if word == "127.0.0.1" else word for word in SERVE),
            *(*sizes(2, 3), *meeting(2, at="gpu1.example.net:29500", nodes=3), METRICS),
            environment={
                "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
                "CUDA_VISIBLE_DEVICES": "6,7",
                **ON_THIRD,
            },
            http=Http("http://[::1]:30000", "/health", "", is_endpoint=False),
        ),
    ),
    "leader of two, IPv6": Case(
        values={**OVER_TWO6, "rank": 0, "tensor_parallel": 2},
        facts=LEADER6,
        plan=made(
            *(*SERVE, *sizes(2), *meeting(0, at="[fd00::1]:29500"), METRICS),
            environment=over_ipv6(ON_LEADER, "fd00::1"),
            ports=(30000, 29500),
        ),
    ),
    "worker of two, IPv6": Case(
        values={**OVER_TWO6, "rank": 1, "tensor_parallel": 2},
        facts=WORKER6,
        plan=made(
            *(*SERVE, *sizes(2), *meeting(1, at="[fd00::1]:29500"), METRICS),
            environment=over_ipv6(ON_WORKER, "fd00::2"),
            http=SIGN_OF_LIFE,
        ),
    ),
    "leader of two, the spec's environment above all": Case(
        values={**OVER_TWO, "rank": 0, "tensor_parallel": 2, "environment": {"NCCL_IB_GID_INDEX": "7"}},
        environment={"NCCL_IB_GID_INDEX": "5", "GLOO_SOCKET_IFNAME": "eth9"},
        facts=LEADER,
        plan=made(
            *(*SERVE, *sizes(2), *meeting(0), METRICS),
            environment={**ON_LEADER, "NCCL_IB_GID_INDEX": "7", "GLOO_SOCKET_IFNAME": "eth9"},
            ports=(30000, 29500),
        ),
    ),
    "leader of two, DP attention by the old option": Case(
        values={
            **OVER_TWO,
            "rank": 0,
            "tensor_parallel": 16,
            "data_parallel": 16,
            "gpus": [str(index) for index in range(8)],
        },
        args=("--enable-dp-attention",),
        facts=LEADER,
        plan=made(
            *(*SERVE, *sizes(16, 1, 16), *meeting(0), METRICS, "--enable-dp-attention"),
            environment={
                "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
                "CUDA_VISIBLE_DEVICES": "0,1,2,3,4,5,6,7",
                **ON_LEADER,
            },
            ports=(30000, 29500, 29501, 29502, 29503, 29504, 29505, 29506, 29513),
        ),
    ),
    "worker of two, DP attention by the new option": Case(
        values={**OVER_TWO, "rank": 1, "tensor_parallel": 16, "args": ["--attn-dp-size", "16"]},
        facts=WORKER,
        plan=made(
            *(*SERVE, *sizes(16), *meeting(1), METRICS, "--attn-dp-size", "16"),
            environment=ON_WORKER,
            ports=(30000, 29500, 29501, 29502, 29503, 29504, 29505, 29506),
            http=SIGN_OF_LIFE,
        ),
    ),
    "leader of two, on a node without an address": Case(
        values={**OVER_TWO, "rank": 0, "tensor_parallel": 2},
        facts=NOWHERE,
        plan=made(*SERVE, *sizes(2), *meeting(0), METRICS, ports=(30000, 29500)),
    ),
    "leader of two, at another's address and anybody's port": Case(
        values={
            **OVER_TWO,
            "leader_address": "10.0.0.9",
            "leader_port": 40000,
            "rank": 0,
            "tensor_parallel": 2,
        },
        facts=LEADER,
        plan=made(
            *(*SERVE, *sizes(2), *meeting(0, at="10.0.0.9:40000"), METRICS),
            environment=ON_LEADER,
            ports=(30000, 40000),
            warnings=(
                "leader_address: this node is to be the leader and does not hold 10.0.0.9",
                (
                    "leader_port: 40000 is one of those that the kernel gives to anybody "
                    "(32768 to 60999, net.ipv4.ip_local_port_range)"
                ),
            ),
        ),
    ),
}
