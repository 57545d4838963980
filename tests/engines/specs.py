"""Material for tests of the builders: a spec as the daemon makes it, and the plan that becomes of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from llmgwd.engines.facts import Gpu, NodeFacts
from llmgwd.engines.plan import Plan
from llmgwd.engines.registry import Engines
from llmgwd.model.errors import InvalidSpec
from llmgwd.model.spec import Defaults, ShardSpec, parse_spec

NVIDIA = NodeFacts(
    management_address="10.0.0.1",
    management_interface="eth0",
    gpus=tuple(Gpu(index, f"GPU-{index}", "H100", "nvidia", 80 << 30) for index in range(8)),
    addresses=("127.0.0.1", "10.0.0.1", "fd00::1"),
)
AMD = replace(NVIDIA, gpus=tuple(replace(gpu, name="MI300X", vendor="amd") for gpu in NVIDIA.gpus))
NO_GPU = replace(NVIDIA, gpus=())
# Rank 0 is on LEADER, rank 1 on WORKER, rank 2 on THIRD; the same with IPv6 alone.
LEADER = replace(NVIDIA, nccl_ib_gid_index=3)
WORKER = replace(LEADER, management_address="10.0.0.2", management_interface="bond0.12", addresses=())
THIRD = replace(WORKER, management_address="10.0.0.3", management_interface="br0")
LEADER6 = replace(LEADER, management_address="fd00::1", nccl_ib_gid_index=-1)
WORKER6 = replace(WORKER, management_address="fd00::2", nccl_ib_gid_index=-1)
NOWHERE = replace(NVIDIA, management_address="", management_interface="")
NOTHING: Mapping[str, str] = {}


@dataclass(frozen=True, kw_only=True)
class Case:
    """A golden plan: what these `values` of a spec become. `args` and `environment` are configured."""

    values: Mapping[str, object]
    plan: Plan
    facts: NodeFacts = NVIDIA
    args: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


def spec(engine: str, **values: object) -> ShardSpec:
    """With what the engine itself says where `values` are silent."""
    traits = Engines()[engine].traits
    defaults = Defaults(
        port=traits.port,
        health_path=traits.health_path,
        executable=traits.executable,
        user="llmgw",
        group="",
        working_directory="/var/lib/llmgw",
        stop_timeout_s=60.0,
        rendezvous_timeout_s=300.0,
        takes_model=traits.takes_model,
        takes_args=traits.takes_args,
    )
    return parse_spec("a", {"engine": engine, **values}, defaults)


def plan(
    engine: str,
    *,
    facts: NodeFacts = NVIDIA,
    configured_args: tuple[str, ...] = (),
    configured_environment: Mapping[str, str] = NOTHING,
    **values: object,
) -> Plan:
    """What the builder makes of these values of a spec."""
    builder = Engines()[engine]
    return builder.plan(spec(engine, **values), facts, configured_args, configured_environment)


def refusal_of(engine: str, **values: Any) -> str:
    """Why the builder makes no plan of them; `facts` and what is configured as for `plan`."""
    with pytest.raises(InvalidSpec) as refused:
        plan(engine, **values)
    return refused.value.text


def assert_is_refused_in_args(engine: str, option: str, key: str, **values: Any) -> None:
    """That the spec's args cannot set what a key sets, nor those of the configuration."""
    shown = option.partition("=")[0].replace("_", "-")
    text = f"got {shown}, which the key {key} sets: use {key}"
    assert refusal_of(engine, **values, args=[option, "1"]) == f"args: {text}"
    configured = refusal_of(engine, **values, configured_args=(option, "1"))
    assert configured == f"args of the configuration: {text}"


def plan_of(engine: str, case: Case) -> Plan:
    return plan(
        engine,
        facts=case.facts,
        configured_args=case.args,
        configured_environment=case.environment,
        **case.values,
    )
