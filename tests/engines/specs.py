"""Material for tests of the builders: a spec as the daemon makes it, and the plan that becomes of it."""

from collections.abc import Mapping
from dataclasses import replace

from llmgwd.engines.plan import NodeFacts, Plan
from llmgwd.engines.registry import ENGINES
from llmgwd.model.spec import Defaults, ShardSpec, parse_spec

NVIDIA = NodeFacts("10.0.0.1", "eth0", -1, "nvidia")
AMD = replace(NVIDIA, gpu_vendor="amd")
NOTHING: Mapping[str, str] = {}


def spec(engine: str, **values: object) -> ShardSpec:
    """With what the engine itself says where `values` are silent."""
    builder = ENGINES[engine]
    defaults = Defaults(
        port=builder.default_port,
        health_path=builder.health_path,
        executable=builder.default_executable,
        user="llmgw",
        group="",
        working_directory="/var/lib/llmgw",
        stop_timeout_s=60.0,
        rendezvous_timeout_s=300.0,
        takes_model=builder.takes_model,
        takes_args=builder.takes_args,
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
    builder = ENGINES[engine]
    return builder.plan(spec(engine, **values), facts, configured_args, configured_environment)
