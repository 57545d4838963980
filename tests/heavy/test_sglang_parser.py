from typing import Any

import pytest

from llmgwd.engines.address import host_port
from llmgwd.engines.sglang import OPTIONS
from tests.engines.golden.sglang import CASES
from tests.engines.specs import Case, spec
from tests.heavy.parsers import SGLANG, Read, read

COMMAND_LINES = {name: case.plan.processes[0].argv for name, case in CASES.items()}
WRONG = ("sglang", "serve", "--model-path", "m", "--no-such-option")


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> Read:
    return read(SGLANG, (*COMMAND_LINES.values(), WRONG), tmp_path_factory.mktemp("sglang"))


@pytest.fixture
def answers(said: Read) -> dict[str, dict[str, Any]]:
    return dict(zip((*COMMAND_LINES, "wrong"), said.answers, strict=True))


def meant_by(case: Case) -> dict[str, Any]:
    said = spec("sglang", **case.values)
    leader = host_port(said.leader_address, said.leader_port)
    return {
        "model_path": said.model,
        "served_model_name": said.served_model_name,
        "host": said.host,
        "port": said.port,
        "tp_size": said.tensor_parallel,
        "pp_size": said.pipeline_parallel,
        "dp_size": said.data_parallel,
        "nnodes": said.nodes,
        "node_rank": said.rank,
        "dist_init_addr": leader if said.nodes > 1 else None,
        "enable_metrics": True,
        "enable_dp_attention": "--enable-dp-attention" in case.plan.processes[0].argv,
    }


@pytest.mark.parametrize("name", COMMAND_LINES)
def test_the_real_parser_reads_what_the_spec_meant(answers: dict[str, dict[str, Any]], name: str) -> None:
    meant = meant_by(CASES[name])
    assert {key: answers[name].get(key) for key in (*meant, "refused")} == {**meant, "refused": None}


@pytest.mark.parametrize(
    ("name", "size"),
    [("one node, DP attention at a high port", 2), ("worker of two, DP attention by the new option", 16)],
)
def test_the_ports_of_dp_attention_are_those_that_it_takes(
    answers: dict[str, dict[str, Any]], name: str, size: int
) -> None:
    served, meeting, *following = CASES[name].plan.ports
    assert answers[name]["attn_dp_size"] == size
    assert answers[name]["ports"] == following[: len(answers[name]["ports"])]
    assert len(answers[name]["ports"]) == 6
    assert served == answers[name]["port"]
    assert meeting + 1 == following[0]


def test_without_dp_attention_it_takes_no_such_ports(answers: dict[str, dict[str, Any]]) -> None:
    assert answers["leader of two"]["ports"] == []


def test_the_real_parser_refuses_an_option_that_is_none(answers: dict[str, dict[str, Any]]) -> None:
    assert answers["wrong"] == {"refused": "sglang serve: error: unrecognized arguments: --no-such-option"}


def test_every_spelling_of_what_a_key_sets_is_known(said: Read) -> None:
    assert said.spellings_of(OPTIONS) == set(OPTIONS)


def test_no_other_option_of_sglang_is_taken_for_one_of_them(said: Read) -> None:
    assert said.wrongly_refused(OPTIONS) == []
