"""What vLLM's builder refuses; what it makes of the rest is in golden/vllm.py."""

from typing import Any

import pytest

from llmgwd.model.errors import InvalidSpec
from tests.engines.specs import LEADER, NOWHERE, NVIDIA, plan

OVER_TWO: dict[str, Any] = {
    "nodes": 2,
    "rank": 0,
    "leader_address": "10.0.0.1",
    "leader_port": 5005,
    "tensor_parallel": 2,
}
OVER_FOUR = OVER_TWO | {"nodes": 4, "tensor_parallel": 4}
REACHABLE = "takes an address by which the other nodes reach the leader (nodes is 2)"
SIZES = "tensor_parallel 3 x pipeline_parallel 1 x data_parallel 1"


def refusal_of(**values: Any) -> str:
    with pytest.raises(InvalidSpec) as refusal:
        plan("vllm", **{"model": "org/m", **values})
    return refusal.value.text


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"model": "--trust"}, "model: got '--trust', takes a name that does not begin with '-'"),
        (
            {"served_model_name": "-m"},
            "served_model_name: got '-m', takes a name that does not begin with '-'",
        ),
        (
            {"tensor_parallel": 4, "gpus": ["0", "1"]},
            "gpus: got 2, takes 4: tensor_parallel 4 x pipeline_parallel 1 x data_parallel 1 on 1 node",
        ),
        (
            OVER_TWO | {"tensor_parallel": 4, "pipeline_parallel": 2, "gpus": ["0", "1"]},
            "gpus: got 2, takes 4: tensor_parallel 4 x pipeline_parallel 2 x data_parallel 1 on 2 nodes",
        ),
        (
            OVER_TWO | {"tensor_parallel": 3},
            f"nodes: got 2, takes a divisor of {SIZES}",
        ),
        (
            OVER_TWO | {"leader_address": "127.0.0.1"},
            f"leader_address: got '127.0.0.1', {REACHABLE}",
        ),
        (
            OVER_TWO | {"leader_port": 80},
            "leader_port: got 80, takes 1024 to 65535: engines run without root",
        ),
        (
            OVER_TWO | {"leader_port": 8000},
            "leader_port: got 8000, takes another one than the key port",
        ),
        (
            OVER_TWO | {"executor": "ray", "leader_address": "localhost"},
            f"leader_address: got 'localhost', {REACHABLE}",
        ),
        (
            OVER_TWO | {"executor": "ray", "data_parallel": 2},
            "executor: got 'ray', takes mp (data_parallel is 2)",
        ),
        (
            {"executor": "ray", "data_parallel": 2},
            "executor: got 'ray', takes mp (data_parallel is 2)",
        ),
        (
            OVER_TWO | {"data_parallel": 3},
            "data_parallel: got 3, takes a multiple or a divisor of nodes (2)",
        ),
        (
            OVER_FOUR | {"data_parallel": 2, "port": 5006},
            "leader_port: got 5005, takes one whose next is free: data parallel meets there",
        ),
        (
            OVER_FOUR | {"data_parallel": 2, "leader_port": 65535},
            "leader_port: got 65535, takes one whose next is free: data parallel meets there",
        ),
        (
            OVER_TWO | {"data_parallel_balancing": "hybrid"},
            "data_parallel_balancing: got 'hybrid', takes internal (data_parallel is 1)",
        ),
        (
            {"data_parallel": 2, "data_parallel_balancing": "external"},
            "data_parallel_balancing: got 'external', takes internal (nodes is 1)",
        ),
        (
            OVER_TWO | {"data_parallel": 4, "data_parallel_balancing": "external"},
            "data_parallel: got 4, takes 2, one for each node (data_parallel_balancing is external)",
        ),
        (
            OVER_FOUR | {"data_parallel": 2, "data_parallel_balancing": "hybrid"},
            "data_parallel: got 2, takes a multiple of nodes, 4 (data_parallel_balancing is hybrid)",
        ),
    ],
)
def test_what_it_cannot_do_is_refused_by_key(values: dict[str, object], text: str) -> None:
    assert refusal_of(**values) == text


@pytest.mark.parametrize(
    ("argument", "option", "key"),
    [
        ("--model", "--model", "model"),
        ("--served_model_name=x", "--served-model-name", "served_model_name"),
        ("--host", "--host", "host"),
        ("--port=1", "--port", "port"),
        ("--uds", "--uds", "host"),
        ("--device-ids", "--device-ids", "gpus"),
        ("-tp=4", "-tp", "tensor_parallel"),
        ("-pp", "-pp", "pipeline_parallel"),
        ("--distributed-executor-backend", "--distributed-executor-backend", "executor"),
        ("-n2", "-n2", "nodes"),
        ("--nnodes", "--nnodes", "nodes"),
        ("-r1", "-r1", "rank"),
        ("--headl", "--headl", "rank"),
        ("--master_addr", "--master-addr", "leader_address"),
        ("--master-port", "--master-port", "leader_port"),
        ("-dp", "-dp", "data_parallel"),
        ("-dpl=1", "-dpl", "data_parallel"),
        ("-dpr", "-dpr", "rank"),
        ("-dpa", "-dpa", "leader_address"),
        ("-dpp", "-dpp", "leader_port"),
        ("-dpb", "-dpb", "executor"),
        ("-dpn", "-dpn", "data_parallel_balancing"),
        ("-dph", "-dph", "data_parallel_balancing"),
        ("-dpe", "-dpe", "data_parallel_balancing"),
        ("-dpm", "-dpm", "data_parallel_balancing"),
        ("--data_parallel_hybrid", "--data-parallel-hybrid", "data_parallel_balancing"),
        (
            "--data-parallel-multi-port-external-lb",
            "--data-parallel-multi-port-external-lb",
            "data_parallel_balancing",
        ),
    ],
)
def test_what_a_key_says_is_not_repeated_in_any_spelling(argument: str, option: str, key: str) -> None:
    assert refusal_of(args=[argument]) == f"args: got {option}, which the key {key} sets: use {key}"


def test_configured_args_are_held_to_the_same() -> None:
    with pytest.raises(InvalidSpec) as refusal:
        plan("vllm", model="org/m", configured_args=("--served_model_name=x",))
    assert refusal.value.text == (
        "args of the configuration: got --served-model-name, which the key served_model_name sets: "
        "use served_model_name"
    )


def test_no_gpu_at_all_is_no_warning() -> None:
    assert plan("vllm", model="org/m", gpus=[], tensor_parallel=2).warnings == ()


def test_a_gpu_that_is_not_there_is_a_warning() -> None:
    assert plan("vllm", model="org/m", gpus=["9"]).warnings == (
        "gpus: 9 not among the GPUs of this node (0, 1, 2, 3, 4, 5, 6, 7)",
    )


def test_nodes_of_ray_may_differ_in_gpus() -> None:
    made = plan("vllm", model="org/m", **OVER_TWO | {"executor": "ray", "gpus": ["0"]}, facts=LEADER)
    assert made.warnings == ()


def test_hybrid_with_one_rank_a_node_is_a_warning() -> None:
    values = OVER_TWO | {"data_parallel": 2, "data_parallel_balancing": "hybrid"}
    assert plan("vllm", model="org/m", **values, facts=LEADER).warnings == (
        "data_parallel_balancing: vllm 0.32 takes hybrid with one rank a node for mixtures of experts alone",
    )


@pytest.mark.parametrize("executor", ["mp", "ray"])
def test_a_node_without_an_address_is_planned_all_the_same(executor: str) -> None:
    made = plan("vllm", model="org/m", **OVER_TWO | {"executor": executor}, facts=NOWHERE)
    engine = made.processes[-1]
    assert engine.environment == {
        "PYTHONUNBUFFERED": "1",
        **(
            {"RAY_ADDRESS": "MANAGEMENT_ADDRESS:5005", "RAY_NUM_REDIS_GET_RETRIES": "60"}
            if executor == "ray"
            else {}
        ),
    }


@pytest.mark.parametrize("rank", [0, 1, 2, 3])
def test_each_rank_of_data_parallel_begins_where_the_one_before_it_ends(rank: int) -> None:
    made = plan(
        "vllm",
        model="org/m",
        **OVER_FOUR | {"rank": rank, "data_parallel": 8, "data_parallel_balancing": "hybrid"},
        facts=NVIDIA,
    )
    argv = made.processes[0].argv
    assert argv[argv.index("--data-parallel-start-rank") + 1] == str(2 * rank)


def test_the_port_after_the_leaders_is_looked_at_where_copies_meet_there() -> None:
    values = OVER_TWO | {"nodes": 4, "tensor_parallel": 8, "leader_port": 32_767}
    made = [plan("vllm", model="m", facts=LEADER, **values, data_parallel=size) for size in (1, 2)]
    some = "some are those that the kernel gives to anybody (32768 to 60999, net.ipv4.ip_local_port_range)"
    assert [one.warnings for one in made] == [
        (),
        (f"leader_port: 32767 to 32768 are needed, of which {some}",),
    ]
