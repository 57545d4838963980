"""Options as in TGI's launcher/src/main.rs, release 3.3."""

from collections.abc import Mapping

from llmgwd.engines.plan import Http, Plan, Process
from tests.engines.specs import AMD, LEADER, Case

ENVIRONMENT = {"PYTHONUNBUFFERED": "1", "PROMETHEUS_PORT": "0"}

# fmt: off
CASES: Mapping[str, Case] = {
    "a model alone meets nobody": Case(
        values={"model": "org/m"},
        facts=LEADER,
        plan=Plan(
            processes=(
                Process(
                    name="engine",
                    argv=(
                        "text-generation-launcher",
                        "--model-id", "org/m",
                        "--hostname", "127.0.0.1",
                        "--port", "3000",
                        "--num-shard", "1",
                        "--shard-uds-path", "/var/lib/llmgw/tgi-3000",
                    ),
                    environment=ENVIRONMENT,
                    working_directory="/var/lib/llmgw",
                ),
            ),
            ports=(3000,),
            http=Http("http://127.0.0.1:3000", "/health", "org/m"),
        ),
    ),
    "several GPUs meet at a port that is claimed": Case(
        values={"model": "org/m", "tensor_parallel": 2},
        plan=Plan(
            processes=(
                Process(
                    name="engine",
                    argv=(
                        "text-generation-launcher",
                        "--model-id", "org/m",
                        "--hostname", "127.0.0.1",
                        "--port", "3000",
                        "--num-shard", "2",
                        "--master-port", "29500",
                        "--shard-uds-path", "/var/lib/llmgw/tgi-3000",
                    ),
                    environment=ENVIRONMENT,
                    working_directory="/var/lib/llmgw",
                ),
            ),
            ports=(3000, 29500),
            http=Http("http://127.0.0.1:3000", "/health", "org/m"),
        ),
    ),
    "every key": Case(
        values={
            "model": "/models/m",
            "host": "::",
            "port": 3001,
            "gpus": ["GPU-3", "GPU-1"],
            "tensor_parallel": 2,
            "leader_address": "10.0.0.1",
            "leader_port": 29501,
            "peers": ["10.0.0.2"],
            "args": ["--max-input-tokens", "4096"],
            "environment": {"HF_TOKEN": "spec", "PROMETHEUS_PORT": "9001"},
            "executable": "/opt/tgi/bin/text-generation-launcher",
            "working_directory": "/srv/tgi/",
        },
        args=("--json-output",),
        environment={"HF_TOKEN": "configured", "HUGGINGFACE_HUB_CACHE": "/models"},
        plan=Plan(
            processes=(
                Process(
                    name="engine",
                    argv=(
                        "/opt/tgi/bin/text-generation-launcher",
                        "--model-id", "/models/m",
                        "--hostname", "::",
                        "--port", "3001",
                        "--num-shard", "2",
                        "--master-port", "29501",
                        "--shard-uds-path", "/srv/tgi/tgi-3001",
                        "--json-output",
                        "--max-input-tokens", "4096",
                    ),
                    environment={
                        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
                        "CUDA_VISIBLE_DEVICES": "GPU-3,GPU-1",
                        "PYTHONUNBUFFERED": "1",
                        "PROMETHEUS_PORT": "9001",
                        "HF_TOKEN": "spec",
                        "HUGGINGFACE_HUB_CACHE": "/models",
                    },
                    working_directory="/srv/tgi/",
                ),
            ),
            ports=(3001, 29501),
            http=Http("http://[::1]:3001", "/health", "/models/m"),
        ),
    ),
    "ready by staying alive, on AMD, at an IPv6 address": Case(
        values={"model": "org/m", "host": "fd00::1", "health_path": "", "gpus": ["1"]},
        facts=AMD,
        plan=Plan(
            processes=(
                Process(
                    name="engine",
                    argv=(
                        "text-generation-launcher",
                        "--model-id", "org/m",
                        "--hostname", "fd00::1",
                        "--port", "3000",
                        "--num-shard", "1",
                        "--shard-uds-path", "/var/lib/llmgw/tgi-3000",
                    ),
                    environment={"HIP_VISIBLE_DEVICES": "1", "CUDA_VISIBLE_DEVICES": "1"} | ENVIRONMENT,
                    working_directory="/var/lib/llmgw",
                ),
            ),
            ports=(3000,),
            http=None,
        ),
    ),
}
# fmt: on
