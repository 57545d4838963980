"""Variables as in Ollama's envconfig/config.go and docs/faq.mdx, August 2026."""

from collections.abc import Mapping

from llmgwd.engines.plan import Http, Plan, Process
from tests.engines.specs import AMD, LEADER, NO_GPU, Case

KEPT = {"OLLAMA_KEEP_ALIVE": "-1"}


def serves(http: Http | None, *, port: int = 11434, **environment: str) -> Plan:
    return Plan(
        processes=(Process("engine", ("ollama", "serve"), environment | KEPT, "/var/lib/llmgw"),),
        ports=(port,),
        http=http,
    )


CASES: Mapping[str, Case] = {
    "a model alone": Case(
        values={"model": "llama3"},
        facts=LEADER,
        plan=serves(Http("http://127.0.0.1:11434", "/", "llama3:latest"), OLLAMA_HOST="127.0.0.1:11434"),
    ),
    "at an IPv6 address": Case(
        values={"model": "llama3:8b", "host": "fd00::1", "port": 11435},
        plan=serves(
            Http("http://[fd00::1]:11435", "/", "llama3:8b"), port=11435, OLLAMA_HOST="[fd00::1]:11435"
        ),
    ),
    "ready by staying alive": Case(
        values={"model": "llama3", "host": "::", "health_path": ""},
        plan=serves(None, OLLAMA_HOST="[::]:11434"),
    ),
    "GPUs are hidden from Vulkan, too": Case(
        values={"model": "llama3", "gpus": ["GPU-1"]},
        plan=serves(
            Http("http://127.0.0.1:11434", "/", "llama3:latest"),
            CUDA_DEVICE_ORDER="PCI_BUS_ID",
            CUDA_VISIBLE_DEVICES="GPU-1",
            OLLAMA_VULKAN="0",
            OLLAMA_HOST="127.0.0.1:11434",
        ),
    ),
    "no GPU at all": Case(
        values={"model": "llama3", "gpus": []},
        facts=NO_GPU,
        plan=serves(
            Http("http://127.0.0.1:11434", "/", "llama3:latest"),
            CUDA_VISIBLE_DEVICES="",
            HIP_VISIBLE_DEVICES="",
            OLLAMA_VULKAN="0",
            OLLAMA_HOST="127.0.0.1:11434",
        ),
    ),
    "every key, on AMD": Case(
        values={
            "model": "hf.co/org/m:Q4_K_M",
            "served_model_name": "hf.co/org/m:Q4_K_M",
            "host": "0.0.0.0",
            "gpus": ["1", "0"],
            "leader_address": "10.0.0.1",
            "leader_port": 6379,
            "peers": ["10.0.0.2"],
            "environment": {"OLLAMA_KEEP_ALIVE": "5m"},
            "executable": "/opt/ollama/bin/ollama",
            "working_directory": "/srv",
        },
        environment={"OLLAMA_MODELS": "/models", "OLLAMA_KEEP_ALIVE": "1h"},
        facts=AMD,
        plan=Plan(
            processes=(
                Process(
                    name="engine",
                    argv=("/opt/ollama/bin/ollama", "serve"),
                    environment={
                        "HIP_VISIBLE_DEVICES": "1,0",
                        "CUDA_VISIBLE_DEVICES": "1,0",
                        "OLLAMA_VULKAN": "0",
                        "OLLAMA_HOST": "0.0.0.0:11434",
                        "OLLAMA_KEEP_ALIVE": "5m",
                        "OLLAMA_MODELS": "/models",
                    },
                    working_directory="/srv",
                ),
            ),
            ports=(11434,),
            http=Http("http://127.0.0.1:11434", "/", "hf.co/org/m:Q4_K_M"),
        ),
    ),
}
