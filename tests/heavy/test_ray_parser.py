"""Every golden `ray start`, under any engine, before Ray's own parser."""

from typing import Any

import pytest

from llmgwd.engines.address import host_port
from llmgwd.model.spec import ShardSpec
from tests.heavy.golden_lines import command_lines, read_by, spec_of
from tests.real.ray import ray

# What engine command runs is the spec's own.
START = {name: argv for name, argv in command_lines("start").items() if not name.startswith("command: ")}
WRONG = ("ray", "start", "--head", "--num-gpus", "one")


@pytest.fixture(scope="module")
def read() -> dict[str, Any]:
    """What becomes of each of START, and of WRONG."""
    lines = {**START, "wrong": WRONG}
    said = read_by(ray() / "bin/python3", "ray_parser.py", lines=lines.values(), environment={})
    return dict(zip(lines, said, strict=True))


def place_of(said: ShardSpec) -> dict[str, object]:
    if said.rank > 0:
        return {"address": host_port(said.leader_address, said.leader_port)}
    among_workers = 10_002 <= said.leader_port < 15_000
    return {
        "head": True,
        "port": said.leader_port,
        "include_dashboard": False,
        "dashboard_port": 0,
        "disable_usage_stats": True,
        **({"min_worker_port": said.leader_port + 1} if among_workers else {}),
    }


@pytest.mark.parametrize("name", START)
def test_ray_reads_what_the_spec_meant(read: dict[str, Any], name: str) -> None:
    said, argv = spec_of(name), START[name]
    assert read[name] == {
        **place_of(said),
        **({} if said.gpus is None else {"num_gpus": len(said.gpus)}),
        "block": True,
        "node_ip_address": argv[argv.index("--node-ip-address") + 1],
        "temp_dir": argv[argv.index("--temp-dir") + 1],
        "dashboard_agent_listen_port": 0,
    }


def test_ray_refuses_what_is_wrong(read: dict[str, Any]) -> None:
    assert read["wrong"] == {"refused": "Invalid value for '--num-gpus': 'one' is not a valid integer."}
