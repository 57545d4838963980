"""Every golden command line of vLLM before its own parser, and before what it derives without a GPU."""

import json
from typing import Any

import pytest

from llmgwd.engines.options import refuse_repeated
from llmgwd.engines.vllm import OPTIONS
from llmgwd.model.errors import InvalidSpec
from tests.heavy.golden_lines import command_lines, read_by, spec_of
from tests.heavy.vllm import vllm
from tests.real.ray import ray

# Mixtures of experts alone are balanced externally. Its numbers can be divided by every size of the cases.
MIXTRAL = {
    "architectures": ["MixtralForCausalLM"],
    "model_type": "mixtral",
    "torch_dtype": "bfloat16",
    "hidden_size": 512,
    "num_attention_heads": 8,
    "num_key_value_heads": 8,
    "num_hidden_layers": 3,
    "num_local_experts": 8,
    "vocab_size": 32000,
    "max_position_embeddings": 8192,
}
SERVE = {name: argv for name, argv in command_lines("serve").items() if name.startswith("vllm: ")}
# And a part of what vLLM says of each.
WRONG = {
    ("vllm", "serve", "m", "--no-such-option"): "unrecognized arguments: --no-such-option",
    (
        *("vllm", "serve", "m", "--tensor-parallel-size", "2", "--distributed-executor-backend", "ray"),
        *("--nnodes", "2", "--node-rank", "0"),
    ): "nnodes > 1 can only be set when distributed executor backend is mp",
    (
        *("vllm", "serve", "m", "--tensor-parallel-size", "1"),
        *("--nnodes", "2", "--node-rank", "0"),
    ): "`--nnodes 2` must evenly divide the total world size (1)",
    (
        *("vllm", "serve", "m", "--data-parallel-size", "2"),
        *("--data-parallel-rank", "0", "--data-parallel-size-local", "2"),
    ): "requires `--data-parallel-size-local 1`; got 2",
}


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> dict[object, Any]:
    """`spellings` of each option, and the answer to each of SERVE by its name, and to each of WRONG."""
    home = tmp_path_factory.mktemp("vllm")
    (home / "config.json").write_text(json.dumps(MIXTRAL))
    (packages,) = ray().glob("lib/python3*/site-packages")
    said = read_by(
        vllm() / "bin/python3",
        "vllm_parser.py",
        str(home),
        lines=(*SERVE.values(), *WRONG),
        environment={"HOME": str(home), "HF_HUB_OFFLINE": "1", "PYTHONPATH": str(packages)},
    )
    return {"spellings": said["spellings"], **dict(zip((*SERVE, *WRONG), said["answers"], strict=True))}


@pytest.mark.parametrize("name", SERVE)
def test_vllm_serves_what_the_spec_says_where_it_says(read: dict[object, Any], name: str) -> None:
    said = spec_of(name)
    serves = said.rank == 0 or said.data_parallel_balancing != "internal"
    assert read[name].get("refused") is None
    assert read[name]["options"] == {
        "model_tag": said.model,
        "served_model_name": [said.served_model_name] if serves else None,
        "host": said.host if serves else None,
        "port": said.port if serves else 8000,
        "headless": not serves,
    }


@pytest.mark.parametrize("name", SERVE)
def test_vllm_divides_the_model_as_the_spec_says(read: dict[object, Any], name: str) -> None:
    said = spec_of(name)
    meant = {
        "tensor_parallel_size": said.tensor_parallel,
        "pipeline_parallel_size": said.pipeline_parallel,
        "data_parallel_size": said.data_parallel,
        # Its own choice on a CPU, for one rank, too.
        "distributed_executor_backend": said.executor or "mp",
    }
    assert {key: read[name]["layout"][key] for key in meant} == meant


# nnodes, node_rank, nnodes_within_dp, node_rank_within_dp, local_world_size, master_addr, master_port
SPANNING = {
    "leader": (2, 0, 2, 0, 4, "10.0.0.1", 5005),
    "worker": (2, 1, 2, 1, 4, "10.0.0.1", 5005),
    "third of three, in a pipeline": (3, 2, 3, 2, 2, "10.0.0.1", 5005),
    "worker, IPv6": (2, 1, 2, 1, 1, "fd00::1", 5005),
    "copies that span nodes, leader": (4, 0, 2, 0, 2, "10.0.0.1", 5005),
    "copies that span nodes, third": (4, 2, 2, 0, 2, "10.0.0.1", 5005),
}
# data_parallel_rank, …_size_local, …_external_lb, …_hybrid_lb, …_master_ip, …_rpc_port
DATA_PARALLEL = {
    "data parallel": (0, 2, False, False, "127.0.0.1", 29550),
    "data parallel, leader": (0, 2, False, False, "10.0.0.1", 5005),
    "data parallel, worker": (2, 2, False, False, "10.0.0.1", 5005),
    "data parallel, worker, IPv6": (1, 1, False, False, "fd00::1", 5005),
    "hybrid, leader": (0, 2, False, True, "10.0.0.1", 5005),
    "hybrid, worker": (2, 2, False, True, "10.0.0.1", 5005),
    "external, leader": (0, 1, True, False, "10.0.0.1", 5005),
    "external, worker": (1, 1, True, False, "10.0.0.1", 5005),
    "copies that span nodes, leader": (0, 1, False, False, "10.0.0.1", 5006),
    "copies that span nodes, third": (1, 1, False, False, "10.0.0.1", 5006),
}


def test_vllm_puts_the_ranks_where_the_plan_means_them(read: dict[object, Any]) -> None:
    keys = (
        "nnodes",
        "node_rank",
        "nnodes_within_dp",
        "node_rank_within_dp",
        "local_world_size",
        "master_addr",
        "master_port",
    )
    layouts = {name: read[f"vllm: {name}"]["layout"] for name in SPANNING}
    assert {name: tuple(layout[key] for key in keys) for name, layout in layouts.items()} == SPANNING


def test_vllm_gives_each_node_the_ranks_of_data_parallel_that_the_plan_means(read: dict[object, Any]) -> None:
    keys = ("rank", "size_local", "external_lb", "hybrid_lb", "master_ip", "rpc_port")
    layouts = {name: read[f"vllm: {name}"]["layout"] for name in DATA_PARALLEL}
    assert {
        name: tuple(layout[f"data_parallel_{key}"] for key in keys) for name, layout in layouts.items()
    } == DATA_PARALLEL


@pytest.mark.parametrize("argv", WRONG)
def test_vllm_refuses_what_is_wrong(read: dict[object, Any], argv: tuple[str, ...]) -> None:
    assert WRONG[argv] in read[argv]["refused"]


def test_the_options_that_specs_may_not_repeat_are_all_options_of_vllm(read: dict[object, Any]) -> None:
    spellings = {spelling for option in read["spellings"] for spelling in option}
    assert set(OPTIONS) - spellings == set()


def test_of_an_option_that_specs_may_not_repeat_no_spelling_is_left_out(read: dict[object, Any]) -> None:
    known = [set(option) for option in read["spellings"] if set(option) & set(OPTIONS)]
    assert set().union(*known) == set(OPTIONS)


def test_no_other_option_of_vllm_is_taken_for_one_of_them(read: dict[object, Any]) -> None:
    others = [spelling for option in read["spellings"] for spelling in option if spelling not in OPTIONS]
    assert [option for option in others if is_refused(option)] == []


def is_refused(option: str) -> bool:
    try:
        refuse_repeated([option], OPTIONS, argparse=True)
    except InvalidSpec:
        return True
    return False
