"""Text Generation Inference, on one node: `text-generation-launcher` (TGI 3.3, launcher/src/main.rs)."""

from collections.abc import Iterator, Mapping
from typing import Final

from llmgwd.engines.address import http_of
from llmgwd.engines.engine import Traits
from llmgwd.engines.environment import layered, visible_gpus
from llmgwd.engines.facts import NodeFacts
from llmgwd.engines.keys import check_has_none, check_not_options
from llmgwd.engines.options import check_args
from llmgwd.engines.places import for_sockets
from llmgwd.engines.plan import Plan, Process
from llmgwd.engines.replica import check_alone, check_enough_gpus, warn_of_gpus, warn_of_meeting
from llmgwd.model.addresses import parsed
from llmgwd.model.identifiers import ENGINE
from llmgwd.model.spec import ShardSpec
from llmgwd.model.wording import refuse

OPTIONS: Final[Mapping[str, str]] = {
    "--model-id": "model",
    "--hostname": "host",
    "--port": "port",
    "-p": "port",
    "--num-shard": "tensor_parallel",
    "--sharded": "tensor_parallel",
    "--master-port": "leader_port",
    "--shard-uds-path": "working_directory",
}
MASTER_PORT: Final = 29_500
# With the number of the GPU's process.
LONGEST_SOCKET: Final = "-65535"
ENVIRONMENT: Final[Mapping[str, str]] = {
    "PYTHONUNBUFFERED": "1",
    # 3.3 opens a second port for metrics, 9000 unless told, ends where that is taken, and closes it at once.
    # Any will do: /metrics of the first has them all. Older releases know neither variable nor option.
    "PROMETHEUS_PORT": "0",
}


class Tgi:
    name = "tgi"
    traits = Traits(
        executable="text-generation-launcher",
        port=3000,
        health_path="/health",
        requests=("tgi_queue_size", "tgi_batch_current_size"),
        api_key_variable="API_KEY",
        api_key_option="--api-key",
    )

    def plan(
        self, spec: ShardSpec, facts: NodeFacts, args: tuple[str, ...], environment: Mapping[str, str]
    ) -> Plan:
        _check(spec)
        check_args(args, spec.args, OPTIONS, argparse=False)
        engine = Process(
            name=ENGINE,
            argv=(spec.executable, *serve(spec), *args, *spec.args),
            environment=layered(spec, environment, visible_gpus(spec, facts), ENVIRONMENT),
            working_directory=spec.working_directory,
        )
        return Plan(
            processes=(engine,),
            ports=(spec.port, *master_ports(spec)),
            http=http_of(spec),
            warnings=(
                *_warn_of_master_port(spec, facts),
                *warn_of_gpus(spec, facts, needed=spec.tensor_parallel),
            ),
        )


def serve(spec: ShardSpec) -> tuple[str, ...]:
    # Host and port always: its default for them are HOSTNAME and PORT of the environment.
    return (
        "--model-id", spec.model,
        "--hostname", spec.host,
        "--port", str(spec.port),
        "--num-shard", str(spec.tensor_parallel),
        *(word for port in master_ports(spec) for word in ("--master-port", str(port))),
        "--shard-uds-path", sockets(spec),
    )  # fmt: skip


def master_ports(spec: ShardSpec) -> tuple[int, ...]:
    """Where the processes of several GPUs meet; that of a single one opens none (utils/dist.py)."""
    return (spec.leader_port or MASTER_PORT,) if spec.tensor_parallel > 1 else ()


def sockets(spec: ShardSpec) -> str:
    """Where router and GPUs' processes meet. No other live shard of the node serves at the same port."""
    return for_sockets(spec, f"tgi-{spec.port}", behind=len(LONGEST_SOCKET))


def _warn_of_master_port(spec: ShardSpec, facts: NodeFacts) -> Iterator[str]:
    for port in master_ports(spec):
        yield from warn_of_meeting(port, facts)


def _check(spec: ShardSpec) -> None:
    check_alone(spec)
    check_has_none(spec, "executor", "data_parallel_balancing", "data_parallel", "pipeline_parallel")
    check_not_options(spec, "model")
    if spec.served_model_name != spec.model:
        takes = f"{spec.model}: tgi serves a model by its own name"
        raise refuse("served_model_name", spec.served_model_name, takes)
    if parsed(spec.host) is None or "%" in spec.host:
        # It would listen on every address instead (router/src/server.rs).
        raise refuse("host", spec.host, "an IP address without a zone: tgi looks up no names")
    if spec.port in master_ports(spec):
        raise refuse("leader_port", spec.port, "another one than the key port")
    check_enough_gpus(spec, spec.tensor_parallel)
