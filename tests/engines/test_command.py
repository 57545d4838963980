from collections.abc import Mapping
from typing import Any

import pytest

from llmgwd.engines.command import Command
from llmgwd.engines.engine import Traits
from llmgwd.model.errors import InvalidSpec
from tests.engines.specs import LEADER, plan

PAIR: Mapping[str, Any] = {"nodes": 2, "rank": 0, "leader_address": "10.0.0.1", "leader_port": 6379}


def test_nothing_is_known_of_it() -> None:
    assert Command.traits == Traits(takes_model=False, takes_args=False, meets_by_address=False)
    assert (Command.traits.executable, Command.traits.port, Command.traits.health_path) == ("", 0, "")


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"args": ["-v"]}, "args: not for engine command"),
        ({"executor": "ray"}, "executor: got 'ray', takes none: command knows no executors"),
        ({"command": []}, "command: got none, takes a program and its arguments"),
        ({"waits_for_leader": True}, "leader_address: required when a process waits for the leader"),
    ],
)
def test_what_it_cannot_do_is_refused_by_key(values: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidSpec) as refusal:
        plan("command", **{"command": ["serve"], **values})
    assert refusal.value.text == text


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "localhost", "node.localhost", "0.0.0.0", "::"])
def test_a_leader_whom_nobody_else_reaches_is_a_warning_for_its_ranks_may_be_here(address: str) -> None:
    made = plan("command", command=["serve"], **{**PAIR, "leader_address": address})
    text = f"leader_address: ranks on other nodes do not reach the leader by {address}"
    assert made.warnings == (text,)


def test_a_leader_port_that_anybody_may_have_got_is_a_warning_on_every_rank() -> None:
    text = (
        "leader_port: 60999 is one of those that the kernel gives to anybody "
        "(32768 to 60999, net.ipv4.ip_local_port_range)"
    )
    pair = {**PAIR, "leader_port": 60999}
    made = [plan("command", command=["serve"], facts=LEADER, **{**pair, "rank": rank}) for rank in (0, 1)]
    assert [one.warnings for one in made] == [(text,), (text,)]


def test_gpus_that_the_node_has_not_got_are_a_warning_and_their_number_is_none() -> None:
    text = "gpus: 8, GPU-x not among the GPUs of this node (0, 1, 2, 3, 4, 5, 6, 7)"
    assert plan("command", command=["serve"], gpus=["0", "8", "GPU-1", "GPU-x"]).warnings == (text,)
