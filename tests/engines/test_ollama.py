from typing import Any

import pytest

from llmgwd.engines.engine import Loading, Traits
from llmgwd.engines.ollama import Ollama, listed
from llmgwd.model.errors import InvalidSpec
from tests.engines.specs import plan


def test_it_says_what_the_daemon_has_to_know() -> None:
    assert Ollama.traits == Traits(
        executable="ollama",
        port=11434,
        health_path="/",
        while_loading=Loading.ANSWERS,
        takes_args=False,
    )


@pytest.mark.parametrize(
    ("name", "as_listed"),
    [
        ("llama3", "llama3:latest"),
        ("llama3:8b", "llama3:8b"),
        ("library/llama3", "llama3:latest"),
        ("someone/m:q4", "someone/m:q4"),
        ("registry.ollama.ai/library/llama3", "llama3:latest"),
        ("Registry.Ollama.ai/someone/m", "someone/m:latest"),
        ("https://registry.ollama.ai/library/llama3:8b", "llama3:8b"),
        ("hf.co/org/m-GGUF:Q4_K_M", "hf.co/org/m-GGUF:Q4_K_M"),
        ("registry.example:5000/library/m", "registry.example:5000/library/m:latest"),
    ],
)
def test_a_name_is_expected_as_it_is_listed(name: str, as_listed: str) -> None:
    assert listed(name) == as_listed
    http = plan("ollama", model=name).http
    assert http is not None
    assert http.served_model == as_listed


def test_both_spellings_of_a_name_are_the_same() -> None:
    assert plan("ollama", model="llama3", served_model_name="llama3:latest") == plan("ollama", model="llama3")


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (
            {"nodes": 2, "rank": 0, "leader_address": "10.0.0.1", "leader_port": 29500},
            "nodes: got 2, takes 1: ollama cannot span nodes",
        ),
        ({"args": ["--x"]}, "args: not for engine ollama"),
        ({"executor": "ray"}, "executor: got 'ray', takes none: ollama knows no executors"),
        (
            {"data_parallel_balancing": "hybrid"},
            "data_parallel_balancing: got 'hybrid', takes internal: ollama has no other",
        ),
        ({"data_parallel": 2}, "data_parallel: got 2, takes 1: ollama has none"),
        (
            {"tensor_parallel": 2},
            "tensor_parallel: got 2, takes 1: ollama divides a model over its GPUs as it sees fit",
        ),
        (
            {"pipeline_parallel": 2},
            "pipeline_parallel: got 2, takes 1: ollama divides a model over its GPUs as it sees fit",
        ),
        (
            {"served_model_name": "m"},
            "served_model_name: got 'm', takes llama3:latest: ollama serves a model by its own name",
        ),
    ],
)
def test_what_it_cannot_do_is_refused_by_key(values: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidSpec) as refusal:
        plan("ollama", **{"model": "llama3", **values})
    assert refusal.value.text == text


def test_an_address_of_the_environment_wins_and_is_a_warning() -> None:
    text = "environment: OLLAMA_HOST has it listen elsewhere than host and port say"
    elsewhere = {"OLLAMA_HOST": "0.0.0.0:1"}
    given = plan("ollama", model="m", environment=elsewhere)
    configured = plan("ollama", model="m", configured_environment=elsewhere)
    assert given == configured
    assert given.processes[0].environment == elsewhere | {"OLLAMA_KEEP_ALIVE": "-1"}
    assert given.warnings == (text,)


def test_the_same_address_in_the_environment_is_none() -> None:
    assert plan("ollama", model="m", environment={"OLLAMA_HOST": "127.0.0.1:11434"}).warnings == ()


def test_gpus_that_the_node_has_not_got_are_a_warning() -> None:
    text = "gpus: 8 not among the GPUs of this node (0, 1, 2, 3, 4, 5, 6, 7)"
    assert plan("ollama", model="m", gpus=["0", "8"]).warnings == (text,)
