"""llama.cpp alone and as leader, by tools/server/README.md of July 2026 (b10068); workers: llama_rpc.py."""

from collections.abc import Mapping

from llmgwd.engines.plan import Http, Plan, Process
from tests.engines.golden.llama_rpc import HIDDEN, HOME, OVER_TWO, WORKERS
from tests.engines.specs import AMD, LEADER, LEADER6, Case

LEADING = OVER_TWO | {"rank": 0, "peers": ["10.0.0.2"]}
EVERY_INTERFACE = {"host": "0.0.0.0"}
SERVES = Http("http://127.0.0.1:8080", "/health", "/models/m.gguf")


def serving(
    *argv: str,
    environment: Mapping[str, str] | None = None,
    waits_for: tuple[str, ...] = (),
    http: Http | None = SERVES,
    port: int = 8080,
    warnings: tuple[str, ...] = (),
    working_directory: str = HOME,
) -> Plan:
    """The plan of llama-server."""
    process = Process("engine", argv, environment or {}, working_directory, waits_for)
    return Plan((process,), (port,), http, warnings)


# fmt: off
CASES: Mapping[str, Case] = {
    "a model alone": Case(
        values={"model": "/models/m.gguf"},
        plan=serving(
            "llama-server",
            "-m", "/models/m.gguf",
            "--alias", "/models/m.gguf",
            "--host", "127.0.0.1",
            "--port", "8080",
            "--metrics",
        ),
    ),
    "alone, with every key": Case(
        values={
            "model": "m.gguf",
            "served_model_name": "org/m:7b",
            "host": "fd00::1",
            "port": 9000,
            "gpus": ["0", "1"],
            "tensor_parallel": 2,
            "health_path": "/v1/health",
            "args": ["-ngl", "99", "--device", "CUDA0"],
            "environment": {"CUDA_VISIBLE_DEVICES": "7"},
            "executable": "/opt/llama/llama-server",
            "working_directory": "/models",
        },
        args=("--ctx-size", "4096"),
        environment={"LLAMA_CACHE": "/var/cache/llama", "CUDA_VISIBLE_DEVICES": "6"},
        plan=serving(
            "/opt/llama/llama-server",
            "-m", "m.gguf",
            "--alias", "org/m:7b",
            "--host", "fd00::1",
            "--port", "9000",
            "--split-mode", "row",
            "--metrics",
            "--ctx-size", "4096",
            "-ngl", "99", "--device", "CUDA0",
            environment={
                "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
                "CUDA_VISIBLE_DEVICES": "7",
                "LLAMA_CACHE": "/var/cache/llama",
            },
            http=Http("http://[fd00::1]:9000", "/v1/health", "org/m:7b"),
            port=9000,
            working_directory="/models",
        ),
    ),
    "alone, without health": Case(
        values={"model": "/models/m.gguf", "health_path": ""},
        plan=serving(
            "llama-server",
            "-m", "/models/m.gguf",
            "--alias", "/models/m.gguf",
            "--host", "127.0.0.1",
            "--port", "8080",
            "--metrics",
            http=None,
        ),
    ),
    "alone, without any GPU": Case(
        values={"model": "/models/m.gguf", "gpus": []},
        plan=serving(
            "llama-server",
            "-m", "/models/m.gguf",
            "--alias", "/models/m.gguf",
            "--host", "127.0.0.1",
            "--port", "8080",
            "--device", "none",
            "--metrics",
            environment=HIDDEN,
        ),
    ),
    "alone, by layers on two of AMD's": Case(
        values={"model": "/models/m.gguf", "gpus": ["2", "3"], "pipeline_parallel": 2},
        facts=AMD,
        plan=serving(
            "llama-server",
            "-m", "/models/m.gguf",
            "--alias", "/models/m.gguf",
            "--host", "127.0.0.1",
            "--port", "8080",
            "--split-mode", "layer",
            "--metrics",
            environment={"HIP_VISIBLE_DEVICES": "2,3", "CUDA_VISIBLE_DEVICES": "2,3"},
        ),
    ),
    "alone, on a GPU that is not there": Case(
        values={"model": "/models/m.gguf", "gpus": ["9"]},
        plan=serving(
            "llama-server",
            "-m", "/models/m.gguf",
            "--alias", "/models/m.gguf",
            "--host", "127.0.0.1",
            "--port", "8080",
            "--metrics",
            environment={"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "9"},
            warnings=("gpus: 9 not among the GPUs of this node (0, 1, 2, 3, 4, 5, 6, 7)",),
        ),
    ),
    "the leader of two": Case(
        values=LEADING | EVERY_INTERFACE,
        facts=LEADER,
        plan=serving(
            "llama-server",
            "-m", "/models/m.gguf",
            "--alias", "/models/m.gguf",
            "--host", "0.0.0.0",
            "--port", "8080",
            "--rpc", "10.0.0.2:5005",
            "--metrics",
            waits_for=("10.0.0.2:5005",),
        ),
    ),
    "the leader of three, one of which has a name and one a port": Case(
        values=LEADING | {
            "nodes": 3,
            "peers": ["node-b", "10.0.0.3:6006"],
            "pipeline_parallel": 3,
            "gpus": ["0"],
            "args": ["-ngl", "99"],
        },
        facts=LEADER,
        args=("--threads", "8"),
        plan=serving(
            "llama-server",
            "-m", "/models/m.gguf",
            "--alias", "/models/m.gguf",
            "--host", "127.0.0.1",
            "--port", "8080",
            "--rpc", "node-b:5005,10.0.0.3:6006",
            "--split-mode", "layer",
            "--metrics",
            "--threads", "8",
            "-ngl", "99",
            environment={"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "0"},
            waits_for=("node-b:5005", "10.0.0.3:6006"),
        ),
    ),
    "a leader without any GPU, which keeps its peers' devices": Case(
        values=LEADING | {"gpus": []},
        facts=LEADER,
        plan=serving(
            "llama-server",
            "-m", "/models/m.gguf",
            "--alias", "/models/m.gguf",
            "--host", "127.0.0.1",
            "--port", "8080",
            "--rpc", "10.0.0.2:5005",
            "--metrics",
            environment=HIDDEN | {"GGML_VK_VISIBLE_DEVICES": ""},
            waits_for=("10.0.0.2:5005",),
        ),
    ),
    "a leader that has IPv6 itself": Case(
        values=LEADING | {"leader_address": "fd00::1"},
        facts=LEADER6,
        plan=serving(
            "llama-server",
            "-m", "/models/m.gguf",
            "--alias", "/models/m.gguf",
            "--host", "127.0.0.1",
            "--port", "8080",
            "--rpc", "10.0.0.2:5005",
            "--metrics",
            waits_for=("10.0.0.2:5005",),
        ),
    ),
    "a leader elsewhere than its address says": Case(
        values=LEADING | {"leader_address": "10.0.0.9"},
        facts=LEADER,
        plan=serving(
            "llama-server",
            "-m", "/models/m.gguf",
            "--alias", "/models/m.gguf",
            "--host", "127.0.0.1",
            "--port", "8080",
            "--rpc", "10.0.0.2:5005",
            "--metrics",
            waits_for=("10.0.0.2:5005",),
            warnings=("leader_address: this node is to be the leader and does not hold 10.0.0.9",),
        ),
    ),
    **WORKERS,
}
# fmt: on
