from collections.abc import Mapping
from typing import Any

import pytest

from llmgwd.engines.engine import Loading, Traits
from llmgwd.engines.tensorrt_llm import TensorrtLlm
from llmgwd.model.errors import InvalidSpec
from tests.engines.golden.tensorrt_llm import OVER_SSH
from tests.engines.specs import NOWHERE, NVIDIA, plan

PAIR: Mapping[str, Any] = {
    "nodes": 2,
    "rank": 0,
    "leader_address": "10.0.0.1",
    "leader_port": 29500,
    "peers": ["10.0.0.2"],
    "tensor_parallel": 2,
}
SIZES = "tensor_parallel {} x pipeline_parallel 1 x data_parallel 1"
REACHABLE = "an address by which the other nodes reach the leader (nodes is 2)"
DIVIDES = "trtllm-llmapi-launch divides at"


def refusal_of(**values: Any) -> str:
    with pytest.raises(InvalidSpec) as refusal:
        plan("tensorrt-llm", **{"model": "org/m", **values})
    return refusal.value.text


def test_it_has_no_gauges_and_takes_no_key() -> None:
    assert TensorrtLlm.traits == Traits(
        executable="trtllm-serve",
        port=8000,
        health_path="/health",
        while_loading=Loading.REFUSES,
        requests=(),
        api_key_variable="",
        api_key_option="",
    )


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"executor": "ray"}, "executor: got 'ray', takes none: tensorrt-llm knows no executors"),
        (
            {"data_parallel_balancing": "hybrid"},
            "data_parallel_balancing: got 'hybrid', takes internal: tensorrt-llm has no other",
        ),
        ({"data_parallel": 2}, "data_parallel: got 2, takes 1: tensorrt-llm has none"),
        ({"model": "-m"}, "model: got '-m', takes a name that does not begin with '-'"),
        (
            {"tensor_parallel": 4, "gpus": ["0"]},
            f"gpus: got 1, takes 4: {SIZES.format(4)} on 1 node",
        ),
    ],
)
def test_what_it_cannot_do_is_refused_by_key(values: dict[str, Any], text: str) -> None:
    assert refusal_of(**values) == text


@pytest.mark.parametrize(
    ("option", "shown", "key"),
    [
        ("--host", "--host", "host"),
        ("--port=1", "--port", "port"),
        ("--tp_size", "--tp-size", "tensor_parallel"),
        ("--tensor_parallel_size=2", "--tensor-parallel-size", "tensor_parallel"),
        ("--pp_size", "--pp-size", "pipeline_parallel"),
        ("--pipeline_parallel_size", "--pipeline-parallel-size", "pipeline_parallel"),
        ("--served_model_name", "--served-model-name", "served_model_name"),
    ],
)
def test_an_option_that_it_sets_is_not_repeated(option: str, shown: str, key: str) -> None:
    assert refusal_of(args=[option]) == f"args: got {shown}, which the key {key} sets: use {key}"


def test_the_share_of_a_node_is_the_specs_to_give_on_one_node_alone() -> None:
    args = ["--gpus_per_node", "1"]
    assert plan("tensorrt-llm", model="org/m", args=args).processes[0].argv[-2:] == tuple(args)
    text = "args: got --gpus-per-node, which the key nodes sets: use nodes"
    assert refusal_of(**PAIR, args=args) == text


def test_configured_args_are_held_to_the_same() -> None:
    with pytest.raises(InvalidSpec) as refusal:
        plan("tensorrt-llm", model="org/m", configured_args=("--port", "1"))
    assert refusal.value.text == ("args of the configuration: got --port, which the key port sets: use port")


def test_a_worker_is_refused_for_it_has_nothing_to_run() -> None:
    text = "rank: got 1, takes 0: the leader's mpirun starts tensorrt-llm on the other nodes"
    assert refusal_of(**{**PAIR, "rank": 1}) == text


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (
            {"leader_address": "127.0.0.1"},
            f"leader_address: got '127.0.0.1', takes {REACHABLE}",
        ),
        (
            {"leader_address": "fd00::1"},
            "leader_address: got 'fd00::1', takes a name or an IPv4 address: mpirun takes no IPv6",
        ),
        (
            {"tensor_parallel": 3},
            f"nodes: got 2, takes a divisor of {SIZES.format(3)}",
        ),
        (
            {"tensor_parallel": 4, "gpus": ["0"]},
            f"gpus: got 1, takes 2: {SIZES.format(4)} on 2 nodes",
        ),
        ({"peers": []}, "peers: got 0 of them, takes 1: those of the other nodes (nodes is 2)"),
        (
            {"peers": ["10.0.0.2", "10.0.0.3"]},
            "peers: got 2 of them, takes 1: those of the other nodes (nodes is 2)",
        ),
        (
            {"nodes": 3, "tensor_parallel": 3, "peers": ["node-2", "Node-2"]},
            "peers[1]: got 'Node-2', takes each node once, and not the leader's",
        ),
        (
            {"peers": ["10.0.0.1"]},
            "peers[0]: got '10.0.0.1', takes each node once, and not the leader's",
        ),
    ],
)
def test_nodes_that_it_could_not_span_are_refused_by_key(values: dict[str, Any], text: str) -> None:
    assert refusal_of(**{**PAIR, **values}) == text


@pytest.mark.parametrize("peer", ["10.0.0.2:8", "fd00::2", "[fd00::2]:8", "127.0.0.1", "localhost"])
def test_a_peer_that_mpirun_would_take_for_another_is_refused(peer: str) -> None:
    takes = "a name or an IPv4 address of another node, without a port: mpirun takes no IPv6"
    assert refusal_of(**{**PAIR, "peers": [peer]}) == f"peers[0]: got '{peer}', takes {takes}"


@pytest.mark.parametrize("key", ["executable", "model", "served_model_name"])
def test_a_name_with_a_blank_is_refused_over_nodes_alone(key: str) -> None:
    named: Mapping[str, Any] = {"model": "org/m", key: "/a b"}
    plan("tensorrt-llm", **named)
    takes = f"a name without blanks where nodes is 2: {DIVIDES} them"
    assert refusal_of(**PAIR, **{key: "/a b"}) == f"{key}: got '/a b', takes {takes}"


@pytest.mark.parametrize("argument", ["secret a", "secret\ta", "secret\na", ""])
def test_an_argument_that_would_be_taken_apart_is_refused_over_nodes_and_never_shown(argument: str) -> None:
    plan("tensorrt-llm", model="org/m", args=[argument])
    text = f"got one that is empty or has a blank in it, takes none such where nodes is 2: {DIVIDES} blanks"
    assert refusal_of(**PAIR, args=["--a", argument]) == f"args: {text}"
    with pytest.raises(InvalidSpec) as refusal:
        plan("tensorrt-llm", model="org/m", configured_args=("--a", argument), **PAIR)
    assert refusal.value.text == f"args of the configuration: {text}"


def test_a_leader_that_is_not_this_node_is_a_warning() -> None:
    made = plan("tensorrt-llm", model="org/m", **{**PAIR, "leader_address": "10.0.0.9"})
    text = "leader_address: this node is to be the leader and does not hold 10.0.0.9"
    assert made.warnings == (OVER_SSH, text)


def test_more_gpus_than_it_takes_are_a_warning() -> None:
    made = plan("tensorrt-llm", model="org/m", gpus=["0", "1"])
    assert made.warnings == (f"gpus: 2 named, but {SIZES.format(1)} on 1 node takes 1",)


def test_a_node_without_an_address_still_has_a_plan_to_look_at() -> None:
    made = plan("tensorrt-llm", facts=NOWHERE, model="org/m", **PAIR)
    assert made.processes[0].environment == {"PYTHONUNBUFFERED": "1"}
    assert (
        made.processes[0].argv == plan("tensorrt-llm", facts=NVIDIA, model="org/m", **PAIR).processes[0].argv
    )
