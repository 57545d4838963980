from typing import Any

import pytest

from llmgwd.engines.plan import Http, Plan, Process
from llmgwd.model.errors import InvalidSpec
from tests.engines.specs import plan


def test_a_model_alone_is_served_with_every_default() -> None:
    # fmt: off
    argv = (
        "llama-server",
        "-m", "/models/m.gguf",
        "--alias", "/models/m.gguf",
        "--host", "127.0.0.1",
        "--port", "8080",
        "--metrics",
    )
    # fmt: on
    assert plan("llama-cpp", model="/models/m.gguf") == Plan(
        processes=(Process("engine", argv, {}, "/var/lib/llmgw", ()),),
        ports=(8080,),
        http=Http("http://127.0.0.1:8080", "/health", "/models/m.gguf"),
        warnings=(),
    )


def test_every_key_of_the_spec_becomes_its_option() -> None:
    made = plan(
        "llama-cpp",
        configured_args=("--ctx-size", "4096"),
        configured_environment={"LLAMA_CACHE": "/var/cache/llama"},
        model="m.gguf",
        served_model_name="org/m:7b",
        host="fd00::1",
        port=9000,
        gpus=["0", "1"],
        tensor_parallel=2,
        health_path="/v1/health",
        args=["-ngl", "99", "--device", "CUDA0"],
        environment={"CUDA_VISIBLE_DEVICES": "7"},
        executable="/opt/llama/llama-server",
        working_directory="/models",
    )
    # fmt: off
    argv = (
        "/opt/llama/llama-server",
        "-m", "m.gguf",
        "--alias", "org/m:7b",
        "--host", "fd00::1",
        "--port", "9000",
        "--split-mode", "row",
        "--metrics",
        "--ctx-size", "4096",
        "-ngl", "99", "--device", "CUDA0",
    )
    # fmt: on
    environment = {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": "7",
        "LLAMA_CACHE": "/var/cache/llama",
    }
    assert made == Plan(
        processes=(Process("engine", argv, environment, "/models", ()),),
        ports=(9000,),
        http=Http("http://[fd00::1]:9000", "/v1/health", "org/m:7b"),
        warnings=(),
    )


def test_no_gpu_at_all_is_said_to_builds_that_know_no_variables() -> None:
    made = plan("llama-cpp", model="m.gguf", gpus=[])
    # fmt: off
    argv = (
        "llama-server",
        "-m", "m.gguf",
        "--alias", "m.gguf",
        "--host", "127.0.0.1",
        "--port", "8080",
        "--device", "none",
        "--metrics",
    )
    # fmt: on
    environment = {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": ""}
    assert made.processes == (Process("engine", argv, environment, "/var/lib/llmgw", ()),)


def test_layers_are_split_where_a_pipeline_is_asked_for() -> None:
    argv = plan("llama-cpp", model="m.gguf", pipeline_parallel=2).processes[0].argv
    assert argv[9:] == ("--split-mode", "layer", "--metrics")


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (
            {"nodes": 2, "rank": 1, "leader_address": "10.0.0.1", "leader_port": 50052},
            "nodes: got 2, takes 1: llama-cpp on several nodes is not supported yet by this version",
        ),
        ({"data_parallel": 2}, "data_parallel: got 2, takes 1: llama-cpp has none"),
        (
            {"tensor_parallel": 2, "pipeline_parallel": 3},
            "pipeline_parallel: got 3, takes 1 where tensor_parallel is more than 1",
        ),
        (
            {"served_model_name": "a,b"},
            "served_model_name: got 'a,b', takes a name without commas and without blanks at its ends",
        ),
        (
            {"served_model_name": "a "},
            "served_model_name: got 'a ', takes a name without commas and without blanks at its ends",
        ),
        ({"args": ["-m", "x"]}, "args: got -m, which the key model sets: use model"),
        ({"args": ["-a", "x"]}, "args: got -a, which the key served_model_name sets: use served_model_name"),
        ({"args": ["--metrics"]}, "args: got --metrics, which is always set: leave it out"),
        ({"gpus": [], "args": ["-dev", "x"]}, "args: got -dev, which the key gpus sets: use gpus"),
        (
            {"tensor_parallel": 2, "args": ["-sm", "layer"]},
            "args: got -sm, which the key tensor_parallel sets: use tensor_parallel",
        ),
        (
            {"pipeline_parallel": 2, "args": ["--split_mode=row"]},
            "args: got --split-mode, which the key pipeline_parallel sets: use pipeline_parallel",
        ),
    ],
)
def test_what_it_cannot_do_is_refused_by_key(values: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidSpec) as refusal:
        plan("llama-cpp", **{"model": "m.gguf", **values})
    assert refusal.value.text == text


def test_options_that_the_builder_leaves_alone_are_the_specs_to_give() -> None:
    args = ["-sm", "none", "--device", "CUDA0", "--mod", "-hf"]
    assert plan("llama-cpp", model="m.gguf", args=args).processes[0].argv[-6:] == tuple(args)
