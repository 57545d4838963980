"""SGLang: the same command line on every node of a replica, but for the rank (its 0.5.23, server_args.py)."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from llmgwd.engines.address import base_url, host_port, http_of
from llmgwd.engines.engine import Traits
from llmgwd.engines.environment import between_nodes, layered, own_address, visible_gpus
from llmgwd.engines.facts import NodeFacts
from llmgwd.engines.keys import check_has_none, check_not_options
from llmgwd.engines.options import ALWAYS_SET, check_args
from llmgwd.engines.plan import Http, Plan, Process
from llmgwd.engines.replica import lacks
from llmgwd.engines.sglang_layout import check_layout, dp_attention, ports, warn_of_layout
from llmgwd.model.addresses import parsed
from llmgwd.model.identifiers import ENGINE
from llmgwd.model.spec import ShardSpec
from llmgwd.model.wording import refuse

# Its health check generates a token, and gives up after 20 s of its own (SGLANG_HEALTH_CHECK_TIMEOUT).
HEALTH_TIMEOUT_S: Final = 25.0
# What a rank answers that serves nobody, once its part of the model is loaded.
SIGN_OF_LIFE: Final = "/health"

OPTIONS: Final[Mapping[str, str]] = {
    "--model-path": "model",
    "--model": "model",
    "--served-model-name": "served_model_name",
    "--host": "host",
    "--port": "port",
    "--tp-size": "tensor_parallel",
    "--tensor-parallel-size": "tensor_parallel",
    "--pp-size": "pipeline_parallel",
    "--pipeline-parallel-size": "pipeline_parallel",
    "--dp-size": "data_parallel",
    "--data-parallel-size": "data_parallel",
    "--nnodes": "nodes",
    "--node-rank": "rank",
    "--dist-init-addr": "leader_address",
    "--nccl-init-addr": "leader_address",
    "--enable-metrics": ALWAYS_SET,
}
# Names of models in object stores, where a colon is nothing else.
STORES: Final = ("s3://", "gs://", "az://")


class Sglang:
    name = "sglang"
    traits = Traits(
        executable="sglang",
        port=30000,
        health_path="/health",
        requests=("sglang:num_running_reqs", "sglang:num_queue_reqs"),
        api_key_option="--api-key",
    )

    def plan(
        self, spec: ShardSpec, facts: NodeFacts, args: tuple[str, ...], environment: Mapping[str, str]
    ) -> Plan:
        others = (*args, *spec.args)
        attention = dp_attention(others)
        check_args(args, spec.args, OPTIONS, argparse=True)
        _check(spec)
        check_layout(spec, attention)
        engine = Process(
            name=ENGINE,
            argv=(spec.executable, *entry(spec), *serve(spec), *others),
            environment=layered(
                spec,
                environment,
                # Its all-reduce reads the variable as numbers (ValueError).
                visible_gpus(spec, facts, indices=True),
                between_nodes(spec, facts),
                own_address(spec, facts, "SGLANG_HOST_IP"),
                {"PYTHONUNBUFFERED": "1"},
            ),
            working_directory=spec.working_directory,
        )
        return Plan(
            processes=(engine,),
            ports=ports(spec, attention),
            http=http(spec),
            warnings=(*warn_of_layout(spec, facts, attention), *_warn_of_host(spec, facts)),
        )


def entry(spec: ShardSpec) -> tuple[str, ...]:
    """Its own program has `serve` since 0.5.5; the module is for a Python of which that is not in PATH."""
    is_python = spec.executable.rpartition("/")[2].startswith("python")
    return ("-m", "sglang.launch_server") if is_python else ("serve",)


def serve(spec: ShardSpec) -> tuple[str, ...]:
    return (
        "--model-path", spec.model,
        "--served-model-name", spec.served_model_name,
        "--host", spec.host,
        "--port", str(spec.port),
        "--tp-size", str(spec.tensor_parallel),
        "--pp-size", str(spec.pipeline_parallel),
        "--dp-size", str(spec.data_parallel),
        *between_ranks(spec),
        "--enable-metrics",
    )  # fmt: skip


def between_ranks(spec: ShardSpec) -> tuple[str, ...]:
    if spec.nodes == 1:
        return ()
    return (
        "--dist-init-addr", host_port(spec.leader_address, spec.leader_port),
        "--nnodes", str(spec.nodes),
        "--node-rank", str(spec.rank),
    )  # fmt: skip


def http(spec: ShardSpec) -> Http | None:
    """Ranks but the first serve nobody; they say that they live where the first one serves."""
    served = http_of(spec)
    if served is None:
        return None
    if spec.rank == 0:
        return replace(served, timeout_s=HEALTH_TIMEOUT_S)
    return Http(base_url(spec.host, spec.port), SIGN_OF_LIFE, "", is_endpoint=False)


def _check(spec: ShardSpec) -> None:
    check_has_none(spec, "executor", "data_parallel_balancing")
    check_not_options(spec, "model", "served_model_name")
    name = spec.served_model_name
    if ":" in name and not name.lower().startswith(STORES):
        raise refuse("served_model_name", name, "a name without ':', which sglang puts before an adapter")


def _warn_of_host(spec: ShardSpec, facts: NodeFacts) -> Iterator[str]:
    """A rank that serves nobody runs on where it cannot listen, but is never seen to be ready."""
    host = parsed(spec.host)
    if spec.rank > 0 and host is not None and not host.is_unspecified and lacks(facts, spec.host):
        yield f"host: this node does not hold {spec.host}, where rank {spec.rank} is to say that it lives"
