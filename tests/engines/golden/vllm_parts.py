"""Pieces of the golden plans of vLLM: its command line by the CLI reference of 0.32."""

from collections.abc import Mapping

from llmgwd.engines.plan import Http, Plan, Process

HOME = "/var/lib/llmgw"
ALONE = {"model": "org/m"}
OVER_TWO = ALONE | {"nodes": 2, "leader_address": "10.0.0.1", "leader_port": 5005, "replica_id": "r"}
LEADING = OVER_TWO | {"rank": 0}
FOLLOWING = OVER_TWO | {"rank": 1}
LEADING6 = LEADING | {"leader_address": "fd00::1"}
FOLLOWING6 = FOLLOWING | {"leader_address": "fd00::1"}
SERVES = Http("http://127.0.0.1:8000", "/health", "org/m")

# fmt: off
SERVE = ("vllm", "serve", "org/m")
HEADLESS = (*SERVE, "--headless")
LISTEN = (
    "--served-model-name", "org/m",
    "--host", "127.0.0.1",
    "--port", "8000",
)
# fmt: on


def sizes(tensor: int = 1, pipeline: int = 1) -> tuple[str, ...]:
    return (
        "--tensor-parallel-size", str(tensor),
        "--pipeline-parallel-size", str(pipeline),
    )  # fmt: skip


def spanning(rank: int, nodes: int = 2, leader: str = "10.0.0.1") -> tuple[str, ...]:
    return (
        "--distributed-executor-backend", "mp",
        "--nnodes", str(nodes),
        "--node-rank", str(rank),
        "--master-addr", leader,
        "--master-port", "5005",
    )  # fmt: skip


def meeting(leader: str = "10.0.0.1") -> tuple[str, ...]:
    return (
        "--data-parallel-address", leader,
        "--data-parallel-rpc-port", "5005",
    )  # fmt: skip


UNBUFFERED = {"PYTHONUNBUFFERED": "1"}
ON_LEADER = {
    "VLLM_HOST_IP": "10.0.0.1",
    "NCCL_SOCKET_FAMILY": "AF_INET",
    "NCCL_SOCKET_IFNAME": "=eth0",
    "GLOO_SOCKET_IFNAME": "eth0",
    "TP_SOCKET_IFNAME": "eth0",
    "NCCL_IB_GID_INDEX": "3",
    **UNBUFFERED,
}
ON_WORKER = ON_LEADER | {
    "VLLM_HOST_IP": "10.0.0.2",
    "NCCL_SOCKET_IFNAME": "=bond0.12",
    "GLOO_SOCKET_IFNAME": "bond0.12",
    "TP_SOCKET_IFNAME": "bond0.12",
}
ON_THIRD = ON_LEADER | {
    "VLLM_HOST_IP": "10.0.0.3",
    "NCCL_SOCKET_IFNAME": "=br0",
    "GLOO_SOCKET_IFNAME": "br0",
    "TP_SOCKET_IFNAME": "br0",
}


def over_ipv6(variables: Mapping[str, str], own: str) -> dict[str, str]:
    """`variables` with IPv6; the RoCE entries of a node hold none."""
    others = {name: value for name, value in variables.items() if name != "NCCL_IB_GID_INDEX"}
    return others | {"VLLM_HOST_IP": own, "NCCL_SOCKET_FAMILY": "AF_INET6"}


LEADER_6 = over_ipv6(ON_LEADER, "fd00::1")
WORKER_6 = over_ipv6(ON_WORKER, "fd00::2")
FOUR_GPUS = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "0,1,2,3"}


def plan(
    *argv: str,
    environment: Mapping[str, str] = UNBUFFERED,
    ports: tuple[int, ...] = (8000,),
    http: Http | None = SERVES,
    warnings: tuple[str, ...] = (),
    working_directory: str = HOME,
) -> Plan:
    """Of one process, which waits for nobody."""
    return Plan((Process("engine", argv, environment, working_directory),), ports, http, warnings)
