"""LMDeploy: over nodes TurboMind meets at the leader, its PyTorch engine in Ray (0.18.0, cli/serve.py)."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from llmgwd.engines import ray
from llmgwd.engines.address import base_url, host_port, http_of
from llmgwd.engines.engine import Traits
from llmgwd.engines.environment import between_nodes, layered, visible_gpus
from llmgwd.engines.facts import NodeFacts
from llmgwd.engines.keys import check_has_none, check_not_options
from llmgwd.engines.options import check_args, given
from llmgwd.engines.plan import Http, Plan, Process
from llmgwd.engines.replica import (
    check_enough_gpus,
    check_leader,
    warn_of_addresses,
    warn_of_gpus,
    warn_of_ports,
)
from llmgwd.model.addresses import is_ipv6
from llmgwd.model.identifiers import ENGINE
from llmgwd.model.spec import ShardSpec
from llmgwd.model.wording import refuse

# It waits 10 s for its engine before it says that it is unhealthy (LMDEPLOY_HEALTH_PROBE_TIMEOUT).
HEALTH_TIMEOUT_S: Final = 12.0

OPTIONS: Final[Mapping[str, str]] = {
    "--model-name": "served_model_name",
    "--server-name": "host",
    "--server-port": "port",
    "--tp": "tensor_parallel",
    "--dp": "data_parallel",
    "--nnodes": "nodes",
    "--node-rank": "rank",
    "--dist-init-addr": "leader_address",
}
BACKEND: Final = "--backend"
PYTORCH: Final = "pytorch"
# On one node they are the spec's to give.
OVER_NODES: Final[Mapping[str, str]] = {
    BACKEND: "executor",
    "--distributed-executor-backend": "executor",
}
# Sizes that have no key.
OTHER_SIZES: Final = frozenset({"--ep", "--cp"})


class Lmdeploy:
    name = "lmdeploy"
    traits = Traits(
        executable="lmdeploy",
        port=23333,
        health_path="/health",
        requests=("lmdeploy:num_requests_running", "lmdeploy:num_requests_waiting"),
        api_key_option="--api-keys",
    )

    def plan(
        self, spec: ShardSpec, facts: NodeFacts, args: tuple[str, ...], environment: Mapping[str, str]
    ) -> Plan:
        others = (*args, *spec.args)
        check_args(args, spec.args, OPTIONS if spec.nodes == 1 else {**OPTIONS, **OVER_NODES}, argparse=True)
        _check(spec)
        _check_over_nodes(spec)
        _check_data_parallel(spec, others)
        needed = spec.tensor_parallel // spec.nodes
        if spec.data_parallel == 1:
            check_enough_gpus(spec, needed)
        return Plan(
            processes=_processes(spec, facts, (*serve(spec), *others), environment),
            ports=ports(spec),
            http=http(spec),
            warnings=(
                *warn_of_addresses(spec, facts),
                *warn_of_ports(spec, facts),
                *(ray.warn_of_ports(spec) if uses_ray(spec) else ()),
                *warn_of_gpus(spec, facts, None if has_other_sizes(spec, others) else needed),
            ),
        )


def uses_ray(spec: ShardSpec) -> bool:
    """A cluster over nodes, of which rank 0 is the head and serves."""
    return spec.executor == "ray"


def serve(spec: ShardSpec) -> tuple[str, ...]:
    # The model comes first: --api-keys takes every word up to the next option.
    return (
        "serve", "api_server", spec.model,
        "--model-name", spec.served_model_name,
        "--server-name", spec.host,
        "--server-port", str(spec.port),
        "--tp", str(spec.tensor_parallel),
        *(("--dp", str(spec.data_parallel)) if spec.data_parallel > 1 else ()),
        *between_ranks(spec),
    )  # fmt: skip


def between_ranks(spec: ShardSpec) -> tuple[str, ...]:
    if spec.nodes == 1:
        return ()
    if uses_ray(spec):
        return (
            BACKEND, PYTORCH,
            "--distributed-executor-backend", "ray",
        )  # fmt: skip
    return (
        BACKEND, "turbomind",
        "--nnodes", str(spec.nodes),
        "--node-rank", str(spec.rank),
        "--dist-init-addr", host_port(spec.leader_address, spec.leader_port),
    )  # fmt: skip


def http(spec: ShardSpec) -> Http | None:
    """Each rank of TurboMind opens its server, but only the first one has an engine that serves behind it."""
    served = http_of(spec)
    if served is None or (uses_ray(spec) and spec.rank > 0):
        return None
    if spec.rank == 0:
        return replace(served, timeout_s=HEALTH_TIMEOUT_S)
    return Http(base_url(spec.host, spec.port), spec.health_path, "", HEALTH_TIMEOUT_S, is_endpoint=False)


def ports(spec: ShardSpec) -> tuple[int, ...]:
    if spec.nodes == 1:
        return (spec.port,)
    if spec.rank == 0:
        return (spec.port, spec.leader_port)
    return () if uses_ray(spec) else (spec.port,)


def _processes(
    spec: ShardSpec, facts: NodeFacts, arguments: tuple[str, ...], environment: Mapping[str, str]
) -> tuple[Process, ...]:
    if uses_ray(spec) and spec.rank > 0:
        return (ray.worker(spec, facts, environment),)
    engine = Process(
        name=ENGINE,
        argv=(spec.executable, *arguments),
        environment=layered(
            spec,
            environment,
            visible_gpus(spec, facts, indices=uses_ray(spec)),
            _between_processes(spec, facts),
            {"PYTHONUNBUFFERED": "1"},
        ),
        working_directory=spec.working_directory,
        waits_for=(ray.own_address_of_head(spec, facts),) if uses_ray(spec) else (),
    )
    return (ray.head(spec, facts, environment), engine) if uses_ray(spec) else (engine,)


def _between_processes(spec: ShardSpec, facts: NodeFacts) -> Mapping[str, str]:
    """With Ray over nodes, interfaces are the matter of `ray start`, whose children use them."""
    if uses_ray(spec):
        return ray.joining(spec, facts)
    # Its PyTorch engine starts Ray by itself, also where TurboMind was asked for and does not know the model.
    return {**between_nodes(spec, facts), **ray.alone(spec)}


def has_other_sizes(spec: ShardSpec, args: tuple[str, ...]) -> bool:
    """Whether it takes as many GPUs as its sizes can be laid out on, and nobody else knows how many."""
    return spec.data_parallel > 1 or bool(given(args, OTHER_SIZES))


def _check(spec: ShardSpec) -> None:
    check_has_none(spec, "pipeline_parallel", "data_parallel_balancing")
    check_not_options(spec, "model", "served_model_name")
    if spec.executor and spec.nodes == 1:
        takes = "nothing on one node: use --backend in args"
        raise refuse("executor", spec.executor, takes)


def _check_over_nodes(spec: ShardSpec) -> None:
    check_leader(spec)
    if spec.nodes > 1 and is_ipv6(spec.leader_address):
        # TurboMind and its Ray executor both split the address at its colons.
        raise refuse(
            "leader_address", spec.leader_address, "an IPv4 address or a name: lmdeploy knows no IPv6"
        )
    if spec.tensor_parallel % spec.nodes:
        raise refuse("nodes", spec.nodes, f"a divisor of tensor_parallel {spec.tensor_parallel}")


def _check_data_parallel(spec: ShardSpec, args: tuple[str, ...]) -> None:
    if spec.data_parallel == 1:
        return
    if spec.nodes > 1:
        takes = f"1 where nodes is {spec.nodes}: the nodes of lmdeploy share no requests"
        raise refuse("data_parallel", spec.data_parallel, takes)
    if given(args, (BACKEND,)).get(BACKEND) == PYTORCH:
        # Each rank is a server of its own, on the first GPUs and on an address of its choice, whatever
        # CUDA_VISIBLE_DEVICES and --server-name say (serve/openai/launch_server.py).
        takes = "1 with --backend pytorch, whose ranks heed neither gpus nor host"
        raise refuse("data_parallel", spec.data_parallel, takes)
