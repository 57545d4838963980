"""vLLM on one node, and all its golden plans."""

from collections.abc import Mapping

from llmgwd.engines.plan import Http
from tests.engines.golden.vllm_nodes import DATA_PARALLEL, SPANNING
from tests.engines.golden.vllm_parts import (
    ALONE,
    FOUR_GPUS,
    LISTEN,
    SERVE,
    UNBUFFERED,
    plan,
    sizes,
)
from tests.engines.golden.vllm_ray import OVER_RAY
from tests.engines.specs import AMD, NO_GPU, NOWHERE, Case

TOO_MANY = "gpus: 4 named, but tensor_parallel 1 x pipeline_parallel 1 x data_parallel 1 on 1 node takes 1"

ON_ONE_NODE: Mapping[str, Case] = {
    "a model alone": Case(values=ALONE, plan=plan(*SERVE, *LISTEN, *sizes())),
    "every key of one node": Case(
        values={
            "model": "/models/m",
            "served_model_name": "m",
            "host": "::",
            "port": 8001,
            "gpus": ["2", "3", "4", "5"],
            "tensor_parallel": 2,
            "pipeline_parallel": 2,
            "args": ["--enforce-eager", "--override-generation-config", '{"a": [1, 2]}', "--api-key", "k"],
            "environment": {"HF_HUB_OFFLINE": "0", "PYTHONUNBUFFERED": ""},
            "executable": "/opt/vllm/bin/vllm",
            "working_directory": "/srv",
        },
        args=("--max-model-len", "4096"),
        environment={"HF_HOME": "/models", "HF_HUB_OFFLINE": "1"},
        plan=plan(
            *("/opt/vllm/bin/vllm", "serve", "/models/m"),
            *("--served-model-name", "m"),
            *("--host", "::"),
            *("--port", "8001"),
            *sizes(2, 2),
            *("--max-model-len", "4096"),
            "--enforce-eager",
            *("--override-generation-config", '{"a": [1, 2]}'),
            *("--api-key", "k"),
            environment={
                "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
                "CUDA_VISIBLE_DEVICES": "2,3,4,5",
                "HF_HOME": "/models",
                "HF_HUB_OFFLINE": "0",
                "PYTHONUNBUFFERED": "",
            },
            ports=(8001,),
            http=Http("http://[::1]:8001", "/health", "m"),
            working_directory="/srv",
        ),
    ),
    "no health path": Case(
        values=ALONE | {"health_path": ""},
        plan=plan(*SERVE, *LISTEN, *sizes(), http=None),
    ),
    "GPUs by UUID are told as indices": Case(
        values=ALONE | {"gpus": ["GPU-3", "GPU-1"], "tensor_parallel": 2},
        plan=plan(
            *SERVE,
            *LISTEN,
            *sizes(2),
            environment=UNBUFFERED | {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "3,1"},
        ),
    ),
    "GPUs of AMD": Case(
        facts=AMD,
        values=ALONE | {"gpus": ["0", "GPU-1"], "tensor_parallel": 2},
        plan=plan(
            *SERVE,
            *LISTEN,
            *sizes(2),
            environment=UNBUFFERED | {"HIP_VISIBLE_DEVICES": "0,1", "CUDA_VISIBLE_DEVICES": "0,1"},
        ),
    ),
    "no GPU at all": Case(
        facts=NO_GPU,
        values=ALONE | {"gpus": [], "tensor_parallel": 2},
        plan=plan(
            *SERVE,
            *LISTEN,
            *sizes(2),
            environment=UNBUFFERED | {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": ""},
        ),
    ),
    "more GPUs than it needs": Case(
        values=ALONE | {"gpus": ["0", "1", "2", "3"]},
        plan=plan(
            *SERVE,
            *LISTEN,
            *sizes(),
            environment=UNBUFFERED | FOUR_GPUS,
            warnings=(TOO_MANY,),
        ),
    ),
    "its own processes, asked for": Case(
        values=ALONE | {"executor": "mp", "tensor_parallel": 2},
        plan=plan(*SERVE, *LISTEN, *sizes(2), "--distributed-executor-backend", "mp"),
    ),
    "a Ray of its own": Case(
        values=ALONE | {"executor": "ray", "tensor_parallel": 2, "replica_id": "r"},
        plan=plan(
            *SERVE,
            *LISTEN,
            *sizes(2),
            *("--distributed-executor-backend", "ray"),
            environment=UNBUFFERED
            | {
                "RAY_ADDRESS": "local",
                "RAY_TMPDIR": "/var/lib/llmgw/ray-454349e4",
                "RAY_USAGE_STATS_ENABLED": "0",
            },
        ),
    ),
    "data parallel": Case(
        values=ALONE | {"data_parallel": 2, "tensor_parallel": 2, "gpus": ["0", "1", "2", "3"]},
        plan=plan(
            *SERVE,
            *LISTEN,
            *sizes(2),
            *("--data-parallel-size", "2"),
            environment=UNBUFFERED | FOUR_GPUS,
        ),
    ),
    "alone it needs neither a leader nor an address of its own": Case(
        facts=NOWHERE,
        values=ALONE | {"nodes": 1, "rank": 0, "leader_address": "10.0.0.1", "leader_port": 5005},
        plan=plan(*SERVE, *LISTEN, *sizes(), warnings=("leader_address: of no use where nodes is 1",)),
    ),
}

CASES: Mapping[str, Case] = {**ON_ONE_NODE, **SPANNING, **DATA_PARALLEL, **OVER_RAY}
