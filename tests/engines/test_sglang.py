from dataclasses import replace
from typing import Any

import pytest

from llmgwd.model.errors import InvalidSpec
from tests.engines.specs import LEADER, WORKER, assert_is_refused_in_args, plan, refusal_of, spec

OVER_TWO: dict[str, Any] = {
    "nodes": 2,
    "rank": 0,
    "leader_address": "10.0.0.1",
    "leader_port": 29500,
    "tensor_parallel": 8,
}
ANYBODYS = "those that the kernel gives to anybody (32768 to 60999, net.ipv4.ip_local_port_range)"
SECOND = replace(WORKER, addresses=("127.0.0.1", "10.0.0.2"))
ATTENTION = ["--enable-dp-attention"]


def text_of_refusal(values: dict[str, Any]) -> str:
    return refusal_of("sglang", facts=LEADER, **{"model": "org/m", **values})


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"executor": "ray"}, "executor: got 'ray', takes none: sglang knows no executors"),
        (
            {"data_parallel_balancing": "hybrid"},
            "data_parallel_balancing: got 'hybrid', takes internal: sglang has no other",
        ),
        ({"model": "-m"}, "model: got '-m', takes a name that does not begin with '-'"),
        (
            {"served_model_name": "--m"},
            "served_model_name: got '--m', takes a name that does not begin with '-'",
        ),
        (
            {"served_model_name": "m:7b"},
            "served_model_name: got 'm:7b', takes a name without ':', which sglang puts before an adapter",
        ),
        (
            {"tensor_parallel": 2, "gpus": ["0"]},
            "gpus: got 1, takes 2: tensor_parallel 2 x pipeline_parallel 1 x data_parallel 1 on 1 node",
        ),
        (
            {"tensor_parallel": 2, "data_parallel": 2, "gpus": ["0", "1"]},
            "gpus: got 2, takes 4: tensor_parallel 2 x pipeline_parallel 1 x data_parallel 2 on 1 node",
        ),
        (
            {"tensor_parallel": 4, "data_parallel": 3, "args": ATTENTION},
            ("data_parallel: got 3, takes a divisor of tensor_parallel 4 (--enable-dp-attention)"),
        ),
        (
            {"tensor_parallel": 4, "data_parallel": 2, "args": ["--attn-dp-size", "2"]},
            "data_parallel: got 2, takes 1 where args have --attn-dp-size",
        ),
        (
            {"tensor_parallel": 4, "data_parallel": 2, "args": ["--attention-data-parallel-size=2"]},
            "data_parallel: got 2, takes 1 where args have --attention-data-parallel-size",
        ),
        (
            {"port": 65523, "tensor_parallel": 2, "data_parallel": 2, "args": ATTENTION},
            "port: got 65523, takes 65522 or less with DP attention, which takes ports after it",
        ),
    ],
)
def test_what_it_cannot_do_is_refused_by_key(values: dict[str, Any], text: str) -> None:
    assert text_of_refusal(values) == text


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (
            {"leader_address": "127.0.0.1"},
            (
                "leader_address: got '127.0.0.1', takes an address by which the other nodes reach the leader "
                "(nodes is 2)"
            ),
        ),
        (
            {"leader_address": "::"},
            (
                "leader_address: got '::', takes an address by which the other nodes reach the leader "
                "(nodes is 2)"
            ),
        ),
        (
            {"leader_port": 1023},
            "leader_port: got 1023, takes 1024 to 65535: engines run without root",
        ),
        ({"port": 29500}, "leader_port: got 29500, takes another one than the key port"),
        (
            {"nodes": 3},
            "nodes: got 3, takes a divisor of tensor_parallel 8",
        ),
        (
            {"nodes": 4, "tensor_parallel": 2, "pipeline_parallel": 6},
            "nodes: got 4, takes a divisor of pipeline_parallel 6, or 6 times one of tensor_parallel 2",
        ),
        (
            {"gpus": ["0", "1", "2"]},
            "gpus: got 3, takes 4: tensor_parallel 8 x pipeline_parallel 1 x data_parallel 1 on 2 nodes",
        ),
        (
            {"data_parallel": 2},
            (
                "data_parallel: got 2, takes 1 where nodes is 2: use --attn-dp-size in args (before 0.5.22 "
                "--enable-dp-attention, beside this key)"
            ),
        ),
        (
            {"data_parallel": 8, "gpus": ["0", "1", "2"], "args": ATTENTION},
            "gpus: got 3, takes 4: tensor_parallel 8 x pipeline_parallel 1 x data_parallel 1 on 2 nodes",
        ),
        (
            {"leader_port": 65530, "args": ["--attn-dp-size", "8"]},
            "leader_port: got 65530, takes 65522 or less with DP attention, which takes ports after it",
        ),
        (
            {"port": 29506, "args": ["--attn-dp-size", "8"]},
            "port: got 29506, takes one outside of 29500 to 29513, of which DP attention takes its ports",
        ),
    ],
)
def test_what_it_cannot_do_over_nodes_is_refused_by_key(values: dict[str, Any], text: str) -> None:
    assert text_of_refusal({**OVER_TWO, **values}) == text


@pytest.mark.parametrize(
    ("option", "key"),
    [
        ("--model-path", "model"),
        ("--model=x", "model"),
        ("--served-model-name", "served_model_name"),
        ("--host", "host"),
        ("--port=1", "port"),
        ("--tp", "tensor_parallel"),
        ("--tp_size", "tensor_parallel"),
        ("--tensor-parallel-size", "tensor_parallel"),
        ("--pp", "pipeline_parallel"),
        ("--pipeline-parallel-size", "pipeline_parallel"),
        ("--dp", "data_parallel"),
        ("--data-parallel-size", "data_parallel"),
        ("--nnodes", "nodes"),
        ("--node-rank", "rank"),
        ("--dist-init-addr", "leader_address"),
        ("--nccl-init-addr", "leader_address"),
    ],
)
def test_an_option_that_a_key_sets_is_refused_in_args(option: str, key: str) -> None:
    assert_is_refused_in_args("sglang", option, key, facts=LEADER, model="org/m")


def test_metrics_are_always_on_and_need_no_option() -> None:
    text = "args: got --enable-metrics, which is always set: leave it out"
    assert text_of_refusal({"args": ["--enable-metrics"]}) == text


def test_options_that_the_builder_leaves_alone_are_the_specs_to_give() -> None:
    args = ["--tokenizer-path", "t", "--enable-metrics-for-all-schedulers", "--ep", "2", "--nccl-port", "1"]
    assert plan("sglang", model="m", args=args).processes[0].argv[-7:] == tuple(args)


@pytest.mark.parametrize(
    ("nodes", "tensor", "pipeline"),
    [(2, 8, 1), (2, 1, 2), (4, 2, 8), (4, 4, 2), (8, 8, 2)],
)
def test_nodes_may_share_out_stages_or_stages_nodes(nodes: int, tensor: int, pipeline: int) -> None:
    sizes = {"nodes": nodes, "tensor_parallel": tensor, "pipeline_parallel": pipeline}
    argv = plan("sglang", facts=LEADER, model="m", **{**OVER_TWO, **sizes}).processes[0].argv
    assert argv[argv.index("--nnodes") + 1] == str(nodes)


def test_a_missing_rank_is_never_taken_for_the_first() -> None:
    values = {key: value for key, value in OVER_TWO.items() if key != "rank"}
    with pytest.raises(InvalidSpec) as refusal:
        spec("sglang", model="m", **values)
    assert refusal.value.text == "rank: required when nodes is 2"


@pytest.mark.parametrize("host", ["10.0.0.2", "::", "127.0.0.1", "gpu1"])
def test_a_worker_says_that_it_lives_at_any_address_of_its_own(host: str) -> None:
    assert plan("sglang", facts=SECOND, model="m", **{**OVER_TWO, "rank": 1, "host": host}).warnings == ()


def test_a_worker_at_another_nodes_address_is_warned_of() -> None:
    made = plan("sglang", facts=SECOND, model="m", **{**OVER_TWO, "rank": 1, "host": "10.0.0.1"})
    assert made.warnings == ("host: this node does not hold 10.0.0.1, where rank 1 is to say that it lives",)


@pytest.mark.parametrize("option", ["--attn-dp-size", "--attn_dp_size", "--attn-dp", "--attention-data"])
def test_dp_attention_is_seen_in_every_spelling(option: str) -> None:
    values = OVER_TWO | {"leader_port": 29500, "tensor_parallel": 8}
    made = [plan("sglang", facts=LEADER, model="m", args=args, **values) for args in ([option, "2"], [])]
    assert [one.ports for one in made] == [
        (30000, 29500, *range(29501, 29507), 29513),
        (30000, 29500),
    ]


def test_ports_that_dp_attention_takes_after_the_leaders_are_looked_at() -> None:
    values = OVER_TWO | {"leader_port": 32755, "tensor_parallel": 8, "args": ["--attn-dp-size", "2"]}
    made = plan("sglang", facts=LEADER, model="m", **values)
    assert made.warnings == (f"leader_port: 32755 to 32768 are needed, of which some are {ANYBODYS}",)


def test_the_switch_alone_is_no_dp_attention() -> None:
    values = OVER_TWO | {"leader_port": 29500, "tensor_parallel": 8, "args": ATTENTION}
    assert plan("sglang", facts=LEADER, model="m", **values).ports == (30000, 29500)
