from typing import Any

import pytest

from tests.engines.specs import LEADER, assert_is_refused_in_args, plan, refusal_of

OVER_TWO: dict[str, Any] = {
    "nodes": 2,
    "rank": 0,
    "leader_address": "10.0.0.1",
    "leader_port": 29500,
    "tensor_parallel": 8,
}


def text_of_refusal(values: dict[str, Any]) -> str:
    return refusal_of("lmdeploy", facts=LEADER, **{"model": "org/m", **values})


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"pipeline_parallel": 2}, "pipeline_parallel: got 2, takes 1: lmdeploy has none"),
        (
            {"data_parallel_balancing": "external"},
            "data_parallel_balancing: got 'external', takes internal: lmdeploy has no other",
        ),
        (
            {"executor": "mp"},
            "executor: got 'mp', takes nothing on one node: use --backend in args",
        ),
        ({"model": "-m"}, "model: got '-m', takes a name that does not begin with '-'"),
        (
            {"served_model_name": "-m"},
            "served_model_name: got '-m', takes a name that does not begin with '-'",
        ),
        (
            {"tensor_parallel": 4, "gpus": ["0", "1"]},
            "gpus: got 2, takes 4: tensor_parallel 4 x pipeline_parallel 1 x data_parallel 1 on 1 node",
        ),
        (
            {"data_parallel": 2, "args": ["--backend", "pytorch"]},
            "data_parallel: got 2, takes 1 with --backend pytorch, whose ranks heed neither gpus nor host",
        ),
        (
            {"data_parallel": 2, "args": ["--backend=pytorch"]},
            "data_parallel: got 2, takes 1 with --backend pytorch, whose ranks heed neither gpus nor host",
        ),
        (
            {"data_parallel": 2, "args": ["--backend", "turbomind", "--back", "pytorch"]},
            "data_parallel: got 2, takes 1 with --backend pytorch, whose ranks heed neither gpus nor host",
        ),
    ],
)
def test_what_it_cannot_do_is_refused_by_key(values: dict[str, Any], text: str) -> None:
    assert text_of_refusal(values) == text


@pytest.mark.parametrize("executor", ["", "mp", "ray"])
@pytest.mark.parametrize(
    ("values", "text"),
    [
        (
            {"leader_address": "localhost"},
            (
                "leader_address: got 'localhost', takes an address by which the other nodes reach the leader "
                "(nodes is 2)"
            ),
        ),
        (
            {"leader_address": "fd00::1"},
            "leader_address: got 'fd00::1', takes an IPv4 address or a name: lmdeploy knows no IPv6",
        ),
        ({"leader_port": 80}, "leader_port: got 80, takes 1024 to 65535: engines run without root"),
        ({"port": 29500}, "leader_port: got 29500, takes another one than the key port"),
        ({"nodes": 3}, "nodes: got 3, takes a divisor of tensor_parallel 8"),
        (
            {"data_parallel": 2},
            "data_parallel: got 2, takes 1 where nodes is 2: the nodes of lmdeploy share no requests",
        ),
        (
            {"gpus": ["0"]},
            "gpus: got 1, takes 4: tensor_parallel 8 x pipeline_parallel 1 x data_parallel 1 on 2 nodes",
        ),
        (
            {"args": ["--backend", "turbomind"]},
            "args: got --backend, which the key executor sets: use executor",
        ),
        (
            {"args": ["--distributed-executor-backend=mp"]},
            "args: got --distributed-executor-backend, which the key executor sets: use executor",
        ),
    ],
)
def test_what_it_cannot_do_over_nodes_is_refused_by_key(
    values: dict[str, Any], executor: str, text: str
) -> None:
    named = {"executor": executor} if executor else {}
    assert text_of_refusal({**OVER_TWO, **named, **values}) == text


@pytest.mark.parametrize(
    ("option", "key"),
    [
        ("--model-name", "served_model_name"),
        ("--server-name", "host"),
        ("--server_port=1", "port"),
        ("--tp", "tensor_parallel"),
        ("--dp=2", "data_parallel"),
        ("--nnodes", "nodes"),
        ("--node-rank", "rank"),
        ("--dist-init-addr", "leader_address"),
    ],
)
def test_an_option_that_a_key_sets_is_refused_in_args(option: str, key: str) -> None:
    assert_is_refused_in_args("lmdeploy", option, key, facts=LEADER, model="org/m")


def test_on_one_node_backend_and_executor_are_the_specs_to_give() -> None:
    args = ["--backend", "pytorch", "--distributed-executor-backend", "mp", "--ep", "2"]
    assert plan("lmdeploy", model="m", args=args).processes[0].argv[-6:] == tuple(args)


@pytest.mark.parametrize("values", [{"data_parallel": 2}, {"args": ["--ep", "4"]}, {"args": ["--cp=2"]}])
def test_where_sizes_have_no_key_nobody_says_how_many_gpus_it_takes(values: dict[str, Any]) -> None:
    made = plan("lmdeploy", model="m", gpus=["0", "1", "2", "3"], tensor_parallel=2, **values)
    assert made.warnings == ()
