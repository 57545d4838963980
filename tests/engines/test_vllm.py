from typing import Any

import pytest

from llmgwd.engines.plan import Http, Plan, Process
from llmgwd.model.errors import InvalidSpec
from tests.engines.specs import plan

# fmt: off
SERVE = (
    "vllm", "serve", "org/m",
    "--served-model-name", "org/m",
    "--host", "127.0.0.1",
    "--port", "8000",
    "--tensor-parallel-size", "1",
    "--pipeline-parallel-size", "1",
)
# fmt: on


def engine(argv: tuple[str, ...], environment: dict[str, str] | None = None) -> Process:
    unbuffered = {"PYTHONUNBUFFERED": "1"}
    return Process("engine", argv, unbuffered | (environment or {}), "/var/lib/llmgw", ())


def test_a_model_alone_is_served_with_every_default() -> None:
    assert plan("vllm", model="org/m") == Plan(
        processes=(engine(SERVE),),
        ports=(8000,),
        http=Http("http://127.0.0.1:8000", "/health", "org/m"),
        warnings=(),
    )


def test_every_key_of_the_spec_becomes_its_option() -> None:
    made = plan(
        "vllm",
        configured_args=("--max-model-len", "4096"),
        configured_environment={"HF_HOME": "/models", "HF_HUB_OFFLINE": "1"},
        model="/models/m",
        served_model_name="m",
        host="::",
        port=8001,
        gpus=["2", "3", "4", "5"],
        tensor_parallel=2,
        pipeline_parallel=1,
        data_parallel=2,
        args=["--enforce-eager", "--override-generation-config", '{"a": [1, 2]}', ""],
        environment={"HF_HUB_OFFLINE": "0", "VLLM_USE_V1": "1"},
        executable="/opt/vllm/bin/vllm",
        working_directory="/srv",
    )
    # fmt: off
    argv = (
        "/opt/vllm/bin/vllm", "serve", "/models/m",
        "--served-model-name", "m",
        "--host", "::",
        "--port", "8001",
        "--tensor-parallel-size", "2",
        "--pipeline-parallel-size", "1",
        "--data-parallel-size", "2",
        "--max-model-len", "4096",
        "--enforce-eager", "--override-generation-config", '{"a": [1, 2]}', "",
    )
    # fmt: on
    environment = {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": "2,3,4,5",
        "PYTHONUNBUFFERED": "1",
        "HF_HOME": "/models",
        "HF_HUB_OFFLINE": "0",
        "VLLM_USE_V1": "1",
    }
    assert made == Plan(
        processes=(Process("engine", argv, environment, "/srv", ()),),
        ports=(8001,),
        http=Http("http://[::1]:8001", "/health", "m"),
        warnings=(),
    )


def test_without_a_health_path_it_is_ready_by_staying_alive() -> None:
    made = plan("vllm", model="org/m", health_path="")
    assert made == Plan(processes=(engine(SERVE),), ports=(8000,), http=None, warnings=())


def test_a_number_of_gpus_that_does_not_fit_is_a_warning() -> None:
    made = plan("vllm", model="org/m", gpus=["0", "1"])
    assert made.warnings == (
        "gpus: 2 named, but tensor_parallel 1, pipeline_parallel 1 and data_parallel 1 take 1",
    )


def test_no_gpu_at_all_is_no_warning() -> None:
    made = plan("vllm", model="org/m", gpus=[], tensor_parallel=2)
    assert made.warnings == ()


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (
            {"nodes": 2, "rank": 0, "leader_address": "10.0.0.1", "leader_port": 29501},
            "nodes: got 2, takes 1: vllm on several nodes is not supported yet by this version",
        ),
        ({"model": "--trust"}, "model: got '--trust', takes a name that does not begin with '-'"),
        (
            {"served_model_name": "-m"},
            "served_model_name: got '-m', takes a name that does not begin with '-'",
        ),
        ({"args": ["--port", "1"]}, "args: got --port, which the key port sets: use port"),
        ({"args": ["-tp=4"]}, "args: got -tp, which the key tensor_parallel sets: use tensor_parallel"),
        ({"args": ["--uds", "/run/v"]}, "args: got --uds, which the key host sets: use host"),
        ({"args": ["-n2"]}, "args: got -n2, which the key nodes sets: use nodes"),
    ],
)
def test_what_it_cannot_do_is_refused_by_key(values: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidSpec) as refusal:
        plan("vllm", **{"model": "org/m", **values})
    assert refusal.value.text == text


def test_configured_args_are_held_to_the_same() -> None:
    with pytest.raises(InvalidSpec) as refusal:
        plan("vllm", model="org/m", configured_args=("--served_model_name=x",))
    assert refusal.value.text == (
        "args of the configuration: got --served-model-name, which the key served_model_name sets: "
        "use served_model_name"
    )
