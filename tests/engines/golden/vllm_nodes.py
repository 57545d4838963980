"""vLLM over nodes by its own processes."""

from collections.abc import Mapping

from llmgwd.engines.plan import Http
from tests.engines.golden.vllm_parts import (
    FOLLOWING,
    FOLLOWING6,
    FOUR_GPUS,
    HEADLESS,
    LEADER_6,
    LEADING,
    LEADING6,
    LISTEN,
    ON_LEADER,
    ON_THIRD,
    ON_WORKER,
    SERVE,
    WORKER_6,
    meeting,
    plan,
    sizes,
    spanning,
)
from tests.engines.specs import LEADER, LEADER6, THIRD, WORKER, WORKER6, Case

ANYBODYS = (
    "leader_port: 50000 is one of those that the kernel gives to anybody "
    "(32768 to 60999, net.ipv4.ip_local_port_range)"
)

SPANNING: Mapping[str, Case] = {
    "leader": Case(
        facts=LEADER,
        values=LEADING | {"tensor_parallel": 8, "gpus": ["0", "1", "2", "3"]},
        plan=plan(
            *SERVE,
            *LISTEN,
            *sizes(8),
            *spanning(0),
            environment=ON_LEADER | FOUR_GPUS,
            ports=(8000, 5005),
        ),
    ),
    "worker": Case(
        facts=WORKER,
        values=FOLLOWING | {"tensor_parallel": 8, "host": "0.0.0.0", "gpus": ["0", "1", "2", "3"]},
        plan=plan(
            *HEADLESS,
            *sizes(8),
            *spanning(1),
            environment=ON_WORKER | FOUR_GPUS,
            ports=(),
            http=None,
        ),
    ),
    "third of three, in a pipeline": Case(
        facts=THIRD,
        values=FOLLOWING
        | {"nodes": 3, "rank": 2, "pipeline_parallel": 3, "tensor_parallel": 2, "executor": "mp"},
        args=("--max-model-len", "4096"),
        plan=plan(
            *HEADLESS,
            *sizes(2, 3),
            *spanning(2, nodes=3),
            *("--max-model-len", "4096"),
            environment=ON_THIRD,
            ports=(),
            http=None,
        ),
    ),
    "leader, IPv6": Case(
        facts=LEADER6,
        values=LEADING6 | {"tensor_parallel": 2, "host": "::"},
        plan=plan(
            *SERVE,
            *("--served-model-name", "org/m"),
            *("--host", "::"),
            *("--port", "8000"),
            *sizes(2),
            *spanning(0, leader="fd00::1"),
            environment=LEADER_6,
            ports=(8000, 5005),
            http=Http("http://[::1]:8000", "/health", "org/m"),
        ),
    ),
    "worker, IPv6": Case(
        facts=WORKER6,
        values=FOLLOWING6 | {"tensor_parallel": 2},
        plan=plan(
            *HEADLESS,
            *sizes(2),
            *spanning(1, leader="fd00::1"),
            environment=WORKER_6,
            ports=(),
            http=None,
        ),
    ),
    "what the spec says of interfaces wins": Case(
        facts=WORKER,
        values=FOLLOWING
        | {
            "tensor_parallel": 2,
            "environment": {"NCCL_SOCKET_IFNAME": "ib0", "VLLM_HOST_IP": "10.1.0.2", "NCCL_DEBUG": "INFO"},
        },
        environment={"NCCL_DEBUG": "WARN", "GLOO_SOCKET_IFNAME": "ib0"},
        plan=plan(
            *HEADLESS,
            *sizes(2),
            *spanning(1),
            environment=ON_WORKER
            | {
                "NCCL_SOCKET_IFNAME": "ib0",
                "GLOO_SOCKET_IFNAME": "ib0",
                "VLLM_HOST_IP": "10.1.0.2",
                "NCCL_DEBUG": "INFO",
            },
            ports=(),
            http=None,
        ),
    ),
    "leader that is somebody else, at a port that may be taken": Case(
        facts=LEADER,
        values=LEADING | {"tensor_parallel": 2, "leader_address": "10.0.0.9", "leader_port": 50000},
        plan=plan(
            *SERVE,
            *LISTEN,
            *sizes(2),
            *("--distributed-executor-backend", "mp"),
            *("--nnodes", "2"),
            *("--node-rank", "0"),
            *("--master-addr", "10.0.0.9"),
            *("--master-port", "50000"),
            environment=ON_LEADER,
            ports=(8000, 50000),
            warnings=(
                "leader_address: this node is to be the leader and does not hold 10.0.0.9",
                ANYBODYS,
            ),
        ),
    ),
}

EXPERTS_ALONE = (
    "data_parallel_balancing: vllm 0.32 takes external with one rank a node for mixtures of experts alone"
)

DATA_PARALLEL: Mapping[str, Case] = {
    "data parallel, leader": Case(
        facts=LEADER,
        values=LEADING | {"data_parallel": 4, "tensor_parallel": 2, "gpus": ["0", "1", "2", "3"]},
        plan=plan(
            *SERVE,
            *LISTEN,
            *sizes(2),
            *("--data-parallel-size", "4"),
            *("--data-parallel-size-local", "2"),
            *meeting(),
            environment=ON_LEADER | FOUR_GPUS,
            ports=(8000, 5005),
        ),
    ),
    "data parallel, worker": Case(
        facts=WORKER,
        values=FOLLOWING | {"data_parallel": 4, "tensor_parallel": 2, "executor": "mp"},
        plan=plan(
            *HEADLESS,
            *sizes(2),
            *("--distributed-executor-backend", "mp"),
            *("--data-parallel-size", "4"),
            *("--data-parallel-size-local", "2"),
            *("--data-parallel-start-rank", "2"),
            *meeting(),
            environment=ON_WORKER,
            ports=(),
            http=None,
        ),
    ),
    "data parallel, worker, IPv6": Case(
        facts=WORKER6,
        values=FOLLOWING6 | {"data_parallel": 2},
        plan=plan(
            *HEADLESS,
            *sizes(),
            *("--data-parallel-size", "2"),
            *("--data-parallel-size-local", "1"),
            *("--data-parallel-start-rank", "1"),
            *meeting("fd00::1"),
            environment=WORKER_6,
            ports=(),
            http=None,
            warnings=(
                "leader_address: vllm 0.32 has no data parallel over IPv6 for mixtures of experts (fd00::1)",
            ),
        ),
    ),
    "hybrid, leader": Case(
        facts=LEADER,
        values=LEADING | {"data_parallel": 4, "data_parallel_balancing": "hybrid"},
        plan=plan(
            *SERVE,
            *LISTEN,
            *sizes(),
            *("--data-parallel-size", "4"),
            "--data-parallel-hybrid-lb",
            *("--data-parallel-size-local", "2"),
            *("--data-parallel-start-rank", "0"),
            *meeting(),
            environment=ON_LEADER,
            ports=(8000, 5005),
        ),
    ),
    "hybrid, worker": Case(
        facts=WORKER,
        values=FOLLOWING | {"data_parallel": 4, "data_parallel_balancing": "hybrid"},
        plan=plan(
            *SERVE,
            *LISTEN,
            *sizes(),
            *("--data-parallel-size", "4"),
            "--data-parallel-hybrid-lb",
            *("--data-parallel-size-local", "2"),
            *("--data-parallel-start-rank", "2"),
            *meeting(),
            environment=ON_WORKER,
        ),
    ),
    "external, leader": Case(
        facts=LEADER,
        values=LEADING | {"data_parallel": 2, "data_parallel_balancing": "external"},
        plan=plan(
            *SERVE,
            *LISTEN,
            *sizes(),
            *("--data-parallel-size", "2"),
            *("--data-parallel-rank", "0"),
            *meeting(),
            environment=ON_LEADER,
            ports=(8000, 5005),
            warnings=(EXPERTS_ALONE,),
        ),
    ),
    "external, worker": Case(
        facts=WORKER,
        values=FOLLOWING | {"data_parallel": 2, "data_parallel_balancing": "external"},
        plan=plan(
            *SERVE,
            *LISTEN,
            *sizes(),
            *("--data-parallel-size", "2"),
            *("--data-parallel-rank", "1"),
            *meeting(),
            environment=ON_WORKER,
            warnings=(EXPERTS_ALONE,),
        ),
    ),
    "copies that span nodes, leader": Case(
        facts=LEADER,
        values=LEADING | {"nodes": 4, "data_parallel": 2, "tensor_parallel": 4},
        plan=plan(
            *SERVE,
            *LISTEN,
            *sizes(4),
            *spanning(0, nodes=4),
            *("--data-parallel-size", "2"),
            *("--data-parallel-rpc-port", "5006"),
            environment=ON_LEADER,
            ports=(8000, 5005, 5006),
        ),
    ),
    "copies that span nodes, third": Case(
        facts=THIRD,
        values=FOLLOWING | {"nodes": 4, "rank": 2, "data_parallel": 2, "tensor_parallel": 4},
        plan=plan(
            *HEADLESS,
            *sizes(4),
            *spanning(2, nodes=4),
            *("--data-parallel-size", "2"),
            *("--data-parallel-rpc-port", "5006"),
            environment=ON_THIRD,
            ports=(),
            http=None,
        ),
    ),
}
