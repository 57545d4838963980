from typing import Any

import pytest

from llmgwd.engines.lmdeploy import OPTIONS, OVER_NODES
from tests.engines.golden.lmdeploy import CASES
from tests.engines.specs import Case, spec
from tests.heavy.parsers import LMDEPLOY, Read, read

# Ray's part of a plan is for Ray to read.
COMMAND_LINES = {
    name: process.argv
    for name, case in CASES.items()
    for process in case.plan.processes
    if process.argv[1] == "serve"
}
WRONG = ("lmdeploy", "serve", "api_server", "m", "--tensor-parallel-size", "2")


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> Read:
    return read(LMDEPLOY, (*COMMAND_LINES.values(), WRONG), tmp_path_factory.mktemp("lmdeploy"))


@pytest.fixture
def answers(said: Read) -> dict[str, dict[str, Any]]:
    return dict(zip((*COMMAND_LINES, "wrong"), said.answers, strict=True))


def meant_by(case: Case) -> dict[str, Any]:
    said = spec("lmdeploy", **case.values)
    over_nodes = said.nodes > 1 and said.executor != "ray"
    return {
        "runs": "api_server",
        "command": "serve",
        "model_path": said.model,
        "model_name": said.served_model_name,
        "server_name": said.host,
        "server_port": said.port,
        "tp": said.tensor_parallel,
        "dp": said.data_parallel,
        "nnodes": said.nodes if over_nodes else 1,
        "node_rank": said.rank if over_nodes else 0,
        "dist_init_addr": f"{said.leader_address}:{said.leader_port}" if over_nodes else None,
        "distributed_executor_backend": "ray" if said.executor == "ray" else None,
    }


@pytest.mark.parametrize("name", COMMAND_LINES)
def test_the_real_parser_reads_what_the_spec_meant(answers: dict[str, dict[str, Any]], name: str) -> None:
    meant = meant_by(CASES[name])
    assert {key: answers[name].get(key) for key in (*meant, "refused")} == {**meant, "refused": None}


def test_over_nodes_the_backend_is_the_executors(answers: dict[str, dict[str, Any]]) -> None:
    assert {name: answers[name]["backend"] for name in COMMAND_LINES if "of two" in name} == {
        "leader of two": "turbomind",
        "worker of two, named mp, by the leader's name": "turbomind",
        "leader of two, at another's address and anybody's port": "turbomind",
        "leader of two by Ray": "pytorch",
        "leader of two by Ray, ports among its workers'": "pytorch",
    }


def test_the_real_parser_refuses_an_option_that_is_none(answers: dict[str, dict[str, Any]]) -> None:
    assert answers["wrong"] == {
        "refused": "lmdeploy: error: unrecognized arguments: --tensor-parallel-size 2"
    }


def test_every_spelling_of_what_a_key_sets_is_known(said: Read) -> None:
    assert said.spellings_of({**OPTIONS, **OVER_NODES}) == {*OPTIONS, *OVER_NODES}


def test_no_other_option_of_lmdeploy_is_taken_for_one_of_them(said: Read) -> None:
    assert said.wrongly_refused({**OPTIONS, **OVER_NODES}) == []
