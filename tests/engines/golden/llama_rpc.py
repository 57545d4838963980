"""llama.cpp's workers, by tools/rpc/README.md of July 2026 (b10068)."""

from collections.abc import Mapping
from dataclasses import replace

from llmgwd.engines.plan import Plan, Process
from tests.engines.specs import NO_GPU, NOWHERE, THIRD, WORKER, WORKER6, Case

HOME = "/var/lib/llmgw"
OVER_TWO = {"model": "/models/m.gguf", "nodes": 2, "leader_address": "10.0.0.1", "leader_port": 5005}
LENDING = OVER_TWO | {"rank": 1}
HIDDEN = {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": ""}
ANYBODYS = (
    "leader_port: 50052 is one of those that the kernel gives to anybody "
    "(32768 to 60999, net.ipv4.ip_local_port_range)"
)


def lending(
    *argv: str,
    environment: Mapping[str, str] | None = None,
    or_named: tuple[str, ...] = ("rpc-server",),
    port: int = 5005,
    warnings: tuple[str, ...] = (),
) -> Plan:
    """The plan of rpc-server: ready by staying alive."""
    process = Process("engine", argv, environment or {}, HOME, (), or_named)
    return Plan((process,), (port,), None, warnings)


# fmt: off
WORKERS: Mapping[str, Case] = {
    "a worker": Case(
        values=LENDING,
        facts=WORKER,
        plan=lending(
            "ggml-rpc-server",
            "--host", "10.0.0.2",
            "--port", "5005",
        ),
    ),
    "the last of three": Case(
        values=LENDING | {"nodes": 3, "rank": 2, "peers": ["10.0.0.2", "10.0.0.3"]},
        facts=THIRD,
        plan=lending(
            "ggml-rpc-server",
            "--host", "10.0.0.3",
            "--port", "5005",
        ),
    ),
    "a worker beside the configured llama-server, whose arguments it is spared": Case(
        values=LENDING | {
            "executable": "/opt/llama/llama-server",
            "gpus": ["1"],
            "args": ["--cache"],
            "environment": {"GGML_RPC_DEBUG": "1"},
        },
        facts=WORKER,
        args=("--threads", "8"),
        environment={"LLAMA_CACHE": "/var/cache/llama"},
        plan=lending(
            "/opt/llama/ggml-rpc-server",
            "--host", "10.0.0.2",
            "--port", "5005",
            "--cache",
            environment={
                "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
                "CUDA_VISIBLE_DEVICES": "1",
                "LLAMA_CACHE": "/var/cache/llama",
                "GGML_RPC_DEBUG": "1",
            },
            or_named=("/opt/llama/rpc-server",),
        ),
    ),
    "a worker whose own program is named": Case(
        values=LENDING | {"executable": "/usr/lib/llama/my-rpc-server"},
        facts=WORKER,
        plan=lending(
            "/usr/lib/llama/my-rpc-server",
            "--host", "10.0.0.2",
            "--port", "5005",
            or_named=(),
        ),
    ),
    "a worker without any GPU": Case(
        values=LENDING | {"gpus": []},
        facts=replace(NO_GPU, addresses=()),
        plan=lending(
            "ggml-rpc-server",
            "--host", "10.0.0.1",
            "--port", "5005",
            "--device", "CPU",
            environment=HIDDEN,
        ),
    ),
    "a worker on IPv6 alone": Case(
        values=LENDING | {"leader_address": "fd00::1"},
        facts=WORKER6,
        plan=lending(
            "ggml-rpc-server",
            "--host", "fd00::2",
            "--port", "5005",
            warnings=(
                "management_address: rpc-server listens on an IPv4 address, and this node's is fd00::2",
            ),
        ),
    ),
    "a worker on a node without an address, and on a port that anybody may get": Case(
        values=LENDING | {"leader_port": 50052},
        facts=replace(NOWHERE, addresses=()),
        plan=lending(
            "ggml-rpc-server",
            "--host", "MANAGEMENT_ADDRESS",
            "--port", "50052",
            port=50052,
            warnings=(ANYBODYS,),
        ),
    ),
}
# fmt: on
