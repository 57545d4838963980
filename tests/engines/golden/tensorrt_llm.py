"""Options as in TensorRT-LLM's tensorrt_llm/commands/serve.py, releases 1.0 to 1.3."""

from collections.abc import Mapping

from llmgwd.engines.plan import Http, Plan, Process
from tests.engines.specs import LEADER, NO_GPU, THIRD, Case

OVER_SSH = (
    "nodes: mpirun starts the processes on the other nodes by ssh, in no scope of llmgwd, "
    "which neither sees nor stops them"
)
FILES_STAY = "environment_files: for this node alone, mpirun hands on to the others what environment sets"
UNBUFFERED = {"PYTHONUNBUFFERED": "1"}
BETWEEN_NODES = {
    "NCCL_SOCKET_FAMILY": "AF_INET",
    "NCCL_SOCKET_IFNAME": "=eth0",
    "GLOO_SOCKET_IFNAME": "eth0",
    "TP_SOCKET_IFNAME": "eth0",
    "NCCL_IB_GID_INDEX": "3",
}


def alone(*argv: str, http: Http | None, **environment: str) -> Plan:
    return Plan(
        processes=(Process("engine", argv, UNBUFFERED | environment, "/var/lib/llmgw"),),
        ports=(8000,),
        http=http,
    )


# fmt: off
CASES: Mapping[str, Case] = {
    "a model alone": Case(
        values={"model": "org/m"},
        plan=alone(
            "trtllm-serve", "org/m",
            "--host", "127.0.0.1",
            "--port", "8000",
            "--tp_size", "1",
            "--pp_size", "1",
            http=Http("http://127.0.0.1:8000", "/health", "org/m"),
        ),
    ),
    "every key of one node": Case(
        values={
            "model": "/models/m",
            "served_model_name": "a name",
            "host": "::",
            "port": 8001,
            "gpus": ["4", "5", "6", "7"],
            "tensor_parallel": 2,
            "pipeline_parallel": 2,
            "args": ["--gpus_per_node", "4", "--chat_template", "{{ a b }}"],
            "environment": {"HF_TOKEN": "spec"},
            "executable": "/opt/trt/bin/trtllm-serve",
            "working_directory": "/srv",
            "peers": ["10.0.0.2"],
            "leader_address": "10.0.0.1",
            "leader_port": 29500,
        },
        args=("--config", "/etc/trt.yml"),
        environment={"HF_TOKEN": "configured", "HF_HOME": "/models"},
        facts=LEADER,
        plan=Plan(
            processes=(
                Process(
                    name="engine",
                    argv=(
                        "/opt/trt/bin/trtllm-serve", "/models/m",
                        "--host", "::",
                        "--port", "8001",
                        "--tp_size", "2",
                        "--pp_size", "2",
                        "--served_model_name", "a name",
                        "--config", "/etc/trt.yml",
                        "--gpus_per_node", "4", "--chat_template", "{{ a b }}",
                    ),
                    environment={
                        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
                        "CUDA_VISIBLE_DEVICES": "4,5,6,7",
                        "PYTHONUNBUFFERED": "1",
                        "HF_TOKEN": "spec",
                        "HF_HOME": "/models",
                    },
                    working_directory="/srv",
                ),
            ),
            ports=(8001,),
            http=Http("http://[::1]:8001", "/health", "a name"),
            warnings=("leader_address: of no use where nodes is 1", "peers: of no use where nodes is 1"),
        ),
    ),
    "a directory is listed by the last part of its path": Case(
        values={"model": "/models/m/"},
        plan=alone(
            "trtllm-serve", "/models/m/",
            "--host", "127.0.0.1",
            "--port", "8000",
            "--tp_size", "1",
            "--pp_size", "1",
            http=Http("http://127.0.0.1:8000", "/health", "m"),
        ),
    ),
    "a directory served by that name needs no option": Case(
        values={"model": "../m", "served_model_name": "m"},
        plan=alone(
            "trtllm-serve", "../m",
            "--host", "127.0.0.1",
            "--port", "8000",
            "--tp_size", "1",
            "--pp_size", "1",
            http=Http("http://127.0.0.1:8000", "/health", "m"),
        ),
    ),
    "the last part of a model's name is another name": Case(
        values={"model": "org/m", "served_model_name": "m", "gpus": []},
        facts=NO_GPU,
        plan=alone(
            "trtllm-serve", "org/m",
            "--host", "127.0.0.1",
            "--port", "8000",
            "--tp_size", "1",
            "--pp_size", "1",
            "--served_model_name", "m",
            http=Http("http://127.0.0.1:8000", "/health", "m"),
            CUDA_VISIBLE_DEVICES="",
            HIP_VISIBLE_DEVICES="",
        ),
    ),
    "ready by staying alive": Case(
        values={"model": "org/m", "health_path": ""},
        plan=alone(
            "trtllm-serve", "org/m",
            "--host", "127.0.0.1",
            "--port", "8000",
            "--tp_size", "1",
            "--pp_size", "1",
            http=None,
        ),
    ),
    "a leader starts them all": Case(
        values={
            "model": "org/m",
            "host": "0.0.0.0",
            "nodes": 2,
            "rank": 0,
            "leader_address": "10.0.0.1",
            "leader_port": 29500,
            "peers": ["node-2"],
            "tensor_parallel": 16,
        },
        facts=LEADER,
        plan=Plan(
            processes=(
                Process(
                    name="engine",
                    argv=(
                        "mpirun",
                        "-np", "16",
                        "-H", "10.0.0.1:8,node-2:8",
                        "trtllm-llmapi-launch",
                        "trtllm-serve", "org/m",
                        "--host", "0.0.0.0",
                        "--port", "8000",
                        "--tp_size", "16",
                        "--pp_size", "1",
                        "--gpus_per_node", "8",
                    ),
                    environment=BETWEEN_NODES | UNBUFFERED,
                    working_directory="/var/lib/llmgw",
                ),
            ),
            ports=(8000,),
            http=Http("http://127.0.0.1:8000", "/health", "org/m"),
            warnings=(OVER_SSH,),
        ),
    ),
    "a leader hands on what it was given, and keeps what is about its node": Case(
        values={
            "model": "/models/m",
            "served_model_name": "a",
            "nodes": 3,
            "rank": 0,
            "leader_address": "node-3",
            "leader_port": 29500,
            "peers": ["10.0.0.1", "10.0.0.2"],
            "tensor_parallel": 2,
            "pipeline_parallel": 3,
            "gpus": ["0", "GPU-1"],
            "args": ["--trust_remote_code"],
            "environment": {
                "HF_TOKEN": "secret",
                "GLOO_SOCKET_IFNAME": "ib0",
                "OMPI_MCA_plm_rsh_args": "-p 2",
            },
            "environment_files": ["/etc/llmgwd/env.d/a"],
            "executable": "/opt/trt/bin/trtllm-serve",
        },
        args=("--config", "/etc/trt.yml"),
        environment={"HF_HOME": "/models"},
        facts=THIRD,
        plan=Plan(
            processes=(
                Process(
                    name="engine",
                    argv=(
                        "mpirun",
                        "-np", "6",
                        "-H", "node-3:2,10.0.0.1:2,10.0.0.2:2",
                        "-x", "HF_HOME",
                        "-x", "HF_TOKEN",
                        "-x", "GLOO_SOCKET_IFNAME",
                        "/opt/trt/bin/trtllm-llmapi-launch",
                        "/opt/trt/bin/trtllm-serve", "/models/m",
                        "--host", "127.0.0.1",
                        "--port", "8000",
                        "--tp_size", "2",
                        "--pp_size", "3",
                        "--gpus_per_node", "2",
                        "--served_model_name", "a",
                        "--config", "/etc/trt.yml",
                        "--trust_remote_code",
                    ),
                    environment={
                        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
                        "CUDA_VISIBLE_DEVICES": "0,GPU-1",
                        "NCCL_SOCKET_FAMILY": "AF_INET",
                        "NCCL_SOCKET_IFNAME": "=br0",
                        "GLOO_SOCKET_IFNAME": "ib0",
                        "TP_SOCKET_IFNAME": "br0",
                        "NCCL_IB_GID_INDEX": "3",
                        "PYTHONUNBUFFERED": "1",
                        "HF_HOME": "/models",
                        "HF_TOKEN": "secret",
                        "OMPI_MCA_plm_rsh_args": "-p 2",
                    },
                    working_directory="/var/lib/llmgw",
                ),
            ),
            ports=(8000,),
            http=Http("http://127.0.0.1:8000", "/health", "a"),
            warnings=(
                OVER_SSH,
                "gpus: this node's alone, the processes on the other nodes see all of theirs",
                FILES_STAY,
            ),
        ),
    ),
}
# fmt: on
