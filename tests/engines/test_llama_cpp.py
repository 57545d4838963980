"""llama.cpp: what its builder refuses, and whose arguments are whose."""

from typing import Any

import pytest

from tests.engines.specs import LEADER, WORKER, plan, refusal_of

REPLICA = {"nodes": 2, "rank": 0, "leader_address": "10.0.0.1", "leader_port": 5005, "peers": ["10.0.0.2"]}
REACHED = "an address by which the other nodes reach the leader"
WORKS = REPLICA | {"rank": 1}


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"executor": "mp"}, "executor: got 'mp', takes none: llama-cpp knows no executors"),
        ({"data_parallel": 2}, "data_parallel: got 2, takes 1: llama-cpp has none"),
        (
            {"data_parallel_balancing": "hybrid"},
            "data_parallel_balancing: got 'hybrid', takes internal: llama-cpp has no other",
        ),
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
        ({"peers": ["10.0.0.2"]}, "peers: got 1 of them, takes none (nodes is 1)"),
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
    assert refusal(values) == text


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"leader_address": "127.0.0.1"}, f"leader_address: got '127.0.0.1', takes {REACHED} (nodes is 2)"),
        ({"leader_port": 80}, "leader_port: got 80, takes 1024 to 65535: engines run without root"),
        ({"leader_port": 8080}, "leader_port: got 8080, takes another one than the key port"),
        ({"tensor_parallel": 2}, "tensor_parallel: got 2, takes 1 over several nodes: they share by layers"),
        ({"executor": "ray"}, "executor: got 'ray', takes none: llama-cpp knows no executors"),
        ({"data_parallel": 2}, "data_parallel: got 2, takes 1: llama-cpp has none"),
    ],
)
def test_what_a_replica_cannot_be_is_refused_on_each_of_its_nodes(
    rank: int, values: dict[str, Any], text: str
) -> None:
    assert refusal(REPLICA | {"rank": rank} | values) == text


@pytest.mark.parametrize(
    ("peers", "text"),
    [
        ([], "got 0 of them, takes 1: those of the other nodes (nodes is 2)"),
        (["10.0.0.2", "10.0.0.3"], "got 2 of them, takes 1: those of the other nodes (nodes is 2)"),
        (["127.0.0.1"], "got '127.0.0.1', takes addresses by which this node reaches the others"),
        (["localhost:5005"], "got 'localhost:5005', takes addresses by which this node reaches the others"),
        (["0.0.0.0:1"], "got '0.0.0.0:1', takes addresses by which this node reaches the others"),
        (["fd00::2"], "got 'fd00::2', takes IPv4 addresses or names: rpc-server knows no IPv6"),
        (["[fd00::2]:5005"], "got '[fd00::2]:5005', takes IPv4 addresses or names: rpc-server knows no IPv6"),
        (["[fd00::2]"], "got '[fd00::2]', takes IPv4 addresses or names: rpc-server knows no IPv6"),
    ],
)
def test_peers_that_the_leader_would_leave_out_without_a_word_are_refused(
    peers: list[str], text: str
) -> None:
    assert refusal(REPLICA | {"peers": peers}) == f"peers: {text}"


@pytest.mark.parametrize(("first", "second"), [("10.0.0.2", "10.0.0.2"), ("node-2", "NODE-2")])
def test_a_peer_is_named_once(first: str, second: str) -> None:
    values = REPLICA | {"nodes": 3, "peers": [first, f"{second}:5005"]}
    assert refusal(values) == f"peers: got '{second}:5005', takes each of them once"


def test_a_worker_needs_no_peers() -> None:
    values: dict[str, Any] = WORKS | {"peers": []}
    assert plan("llama-cpp", facts=WORKER, model="m.gguf", **values).ports == (5005,)


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (REPLICA | {"args": ["--rpc", "x"]}, "args: got --rpc, which the key peers sets: use peers"),
        (WORKS | {"args": ["-H", "x"]}, "args: got -H, which is always set: leave it out"),
        (
            WORKS | {"args": ["-p", "1"]},
            "args: got -p, which the key leader_port sets: use leader_port",
        ),
        (WORKS | {"gpus": [], "args": ["-d", "x"]}, "args: got -d, which the key gpus sets: use gpus"),
    ],
)
def test_args_of_a_rank_are_its_own_programs(values: dict[str, Any], text: str) -> None:
    assert refusal(values) == text


def refusal(values: dict[str, Any]) -> str:
    return refusal_of("llama-cpp", facts=LEADER, **{"model": "m.gguf", **values})


@pytest.mark.parametrize(
    ("values", "args"),
    [
        ({}, ["-sm", "none", "--device", "CUDA0", "--mod", "-hf", "--rpc", "10.0.0.9:5005"]),
        (REPLICA, ["-sm", "none", "--device", "RPC0"]),
        (WORKS, ["-m", "512", "-d", "CUDA0", "-c", "-t", "8", "--metrics"]),
    ],
)
def test_options_that_the_builder_leaves_alone_are_the_specs_to_give(
    values: dict[str, Any], args: list[str]
) -> None:
    made = plan("llama-cpp", facts=LEADER, **{"model": "m.gguf", "args": args, **values})
    assert made.processes[0].argv[-len(args) :] == tuple(args)
