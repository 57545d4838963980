"""vLLM, `vllm serve`: alone, over nodes by its own processes or by Ray, and data parallel.

Sources: vLLM 0.32, CLI reference, "Parallelism and Scaling", "Data Parallel Deployment".
"""

from collections.abc import Iterator, Mapping
from typing import Final

from llmgwd.engines import ray
from llmgwd.engines.address import http_of
from llmgwd.engines.engine import Traits
from llmgwd.engines.environment import between_nodes, layered, own_address, visible_gpus
from llmgwd.engines.facts import NodeFacts
from llmgwd.engines.keys import check_not_options
from llmgwd.engines.options import check_args
from llmgwd.engines.plan import Plan, Process
from llmgwd.engines.vllm_layout import (
    Layout,
    check_layout,
    data_parallel_port,
    layout_of,
    ports,
    serves,
    warn_of_layout,
)
from llmgwd.model.identifiers import ENGINE
from llmgwd.model.spec import ShardSpec

# What the spec decides, whether or not a shard needs it on its command line.
OPTIONS: Final[Mapping[str, str]] = {
    "--model": "model",
    "--served-model-name": "served_model_name",
    "--host": "host",
    "--port": "port",
    "--uds": "host",
    "--device-ids": "gpus",
    "--tensor-parallel-size": "tensor_parallel",
    "-tp": "tensor_parallel",
    "--pipeline-parallel-size": "pipeline_parallel",
    "-pp": "pipeline_parallel",
    "--distributed-executor-backend": "executor",
    "--nnodes": "nodes",
    "-n": "nodes",
    "--node-rank": "rank",
    "-r": "rank",
    "--headless": "rank",
    "--master-addr": "leader_address",
    "--master-port": "leader_port",
    "--data-parallel-size": "data_parallel",
    "-dp": "data_parallel",
    "--data-parallel-size-local": "data_parallel",
    "-dpl": "data_parallel",
    "--data-parallel-start-rank": "rank",
    "-dpr": "rank",
    "--data-parallel-address": "leader_address",
    "-dpa": "leader_address",
    "--data-parallel-rpc-port": "leader_port",
    "-dpp": "leader_port",
    "--data-parallel-backend": "executor",
    "-dpb": "executor",
    "--data-parallel-rank": "data_parallel_balancing",
    "-dpn": "data_parallel_balancing",
    "--data-parallel-hybrid-lb": "data_parallel_balancing",
    "--no-data-parallel-hybrid-lb": "data_parallel_balancing",
    "-dph": "data_parallel_balancing",
    "--data-parallel-external-lb": "data_parallel_balancing",
    "--no-data-parallel-external-lb": "data_parallel_balancing",
    "-dpe": "data_parallel_balancing",
    "--data-parallel-multi-port-external-lb": "data_parallel_balancing",
    "-dpm": "data_parallel_balancing",
}


class Vllm:
    name = "vllm"
    traits = Traits(
        executable="vllm",
        port=8000,
        health_path="/health",
        requests=("vllm:num_requests_running", "vllm:num_requests_waiting"),
        api_key_variable="VLLM_API_KEY",
        api_key_option="--api-key",
    )

    def plan(
        self, spec: ShardSpec, facts: NodeFacts, args: tuple[str, ...], environment: Mapping[str, str]
    ) -> Plan:
        check_not_options(spec, "model", "served_model_name")
        check_layout(spec)
        check_args(args, spec.args, OPTIONS, argparse=True)
        return Plan(
            processes=tuple(_processes(spec, facts, args, environment)),
            ports=ports(spec),
            http=http_of(spec) if serves(spec) else None,
            warnings=tuple(warn_of_layout(spec, facts)),
        )


def _processes(
    spec: ShardSpec, facts: NodeFacts, args: tuple[str, ...], configured: Mapping[str, str]
) -> Iterator[Process]:
    own = own_address(spec, facts, "VLLM_HOST_IP")
    by_ray = layout_of(spec) is Layout.RAY
    if by_ray and spec.rank > 0:
        yield ray.worker(spec, facts, configured, own)
        return
    if by_ray:
        yield ray.head(spec, facts, configured, own)
    yield Process(
        name=ENGINE,
        argv=(spec.executable, *serve(spec), *args, *spec.args),
        environment=layered(
            spec,
            configured,
            # Releases up to 0.20 take a UUID for a number, and fail.
            visible_gpus(spec, facts, indices=True),
            own,
            _between_processes(spec, facts),
            # What it printed before a SIGKILL is worth having.
            {"PYTHONUNBUFFERED": "1"},
        ),
        working_directory=spec.working_directory,
        waits_for=(ray.own_address_of_head(spec, facts),) if by_ray else (),
    )


def serve(spec: ShardSpec) -> tuple[str, ...]:
    # The model comes first: --served-model-name takes every word up to the next option.
    return (
        "serve", spec.model,
        *listen(spec),
        "--tensor-parallel-size", str(spec.tensor_parallel),
        "--pipeline-parallel-size", str(spec.pipeline_parallel),
        *executor(spec),
        *over_nodes(spec),
        *data_parallel(spec),
    )  # fmt: skip


def listen(spec: ShardSpec) -> tuple[str, ...]:
    if not serves(spec):
        return ("--headless",)
    return (
        "--served-model-name", spec.served_model_name,
        "--host", spec.host,
        "--port", str(spec.port),
    )  # fmt: skip


def executor(spec: ShardSpec) -> tuple[str, ...]:
    backend = spec.executor or ("mp" if layout_of(spec) is Layout.SPANNING else "")
    return ("--distributed-executor-backend", backend) if backend else ()


def over_nodes(spec: ShardSpec) -> tuple[str, ...]:
    """Addresses stand without brackets: vLLM adds them."""
    if layout_of(spec) is not Layout.SPANNING:
        return ()
    return (
        "--nnodes", str(spec.nodes),
        "--node-rank", str(spec.rank),
        "--master-addr", spec.leader_address,
        "--master-port", str(spec.leader_port),
    )  # fmt: skip


def data_parallel(spec: ShardSpec) -> tuple[str, ...]:
    if spec.data_parallel == 1:
        return ()
    size = ("--data-parallel-size", str(spec.data_parallel))
    port = ("--data-parallel-rpc-port", str(data_parallel_port(spec)))
    if spec.nodes == 1:
        return size
    if layout_of(spec) is Layout.SPANNING:
        # Which ranks are where, and the address, vLLM derives from --nnodes and its like.
        return (*size, *port)
    return (*size, *ranks_here(spec), "--data-parallel-address", spec.leader_address, *port)


def ranks_here(spec: ShardSpec) -> tuple[str, ...]:
    """Which ranks of data parallel are this node's."""
    here = spec.data_parallel // spec.nodes
    size = ("--data-parallel-size-local", str(here))
    start = ("--data-parallel-start-rank", str(spec.rank * here))
    match spec.data_parallel_balancing:
        case "external":
            return ("--data-parallel-rank", str(spec.rank))
        case "hybrid":
            return ("--data-parallel-hybrid-lb", *size, *start)
        case _:
            # On a rank that serves, a first one would mean hybrid.
            return size if serves(spec) else (*size, *start)


def _between_processes(spec: ShardSpec, facts: NodeFacts) -> Mapping[str, str]:
    """How the processes find each other.

    With Ray, interfaces are the matter of `ray start`, whose children are the ones to use them. `vllm serve`
    uses none, and hands its environment on to other nodes, where other names hold.
    """
    if layout_of(spec) is Layout.RAY:
        return ray.joining(spec, facts)
    if spec.executor == "ray":
        return ray.alone(spec)
    return between_nodes(spec, facts)
