"""What the specification of the spec's keys says of `command`; there is no engine to be read."""

from collections.abc import Mapping

from llmgwd.engines.plan import Http, Plan, Process
from tests.engines.specs import AMD, LEADER, LEADER6, NOWHERE, THIRD, WORKER, WORKER6, Case

RAY = ("/opt/ray", "start", "--head", "--block")
PAIR = {"nodes": 2, "leader_address": "10.0.0.1", "leader_port": 6379}
PAIR6 = PAIR | {"leader_address": "fd00::1"}
AT_LEADER = ("10.0.0.1:6379",)
AT_LEADER6 = ("[fd00::1]:6379",)
BETWEEN_NODES = {"NCCL_SOCKET_FAMILY": "AF_INET", "NCCL_IB_GID_INDEX": "3"}
BETWEEN_NODES6 = {"NCCL_SOCKET_FAMILY": "AF_INET6"}


def by(interface: str) -> dict[str, str]:
    return {
        "NCCL_SOCKET_IFNAME": f"={interface}",
        "GLOO_SOCKET_IFNAME": interface,
        "TP_SOCKET_IFNAME": interface,
    }


def process(
    name: str, *argv: str, environment: Mapping[str, str] | None = None, waits_for: tuple[str, ...] = ()
) -> Process:
    return Process(name, argv, environment or {}, "/var/lib/llmgw", waits_for)


def serves(*waits_for: str, environment: Mapping[str, str]) -> Process:
    return process("engine", "serve", environment=environment, waits_for=waits_for)


CASES: Mapping[str, Case] = {
    "a command alone is ready by staying alive": Case(
        values={"command": ["/bin/sleep", "100"]},
        facts=LEADER,
        plan=Plan(processes=(process("engine", "/bin/sleep", "100"),), ports=(), http=None),
    ),
    "a command without a name that it serves": Case(
        values={"command": ["serve"], "port": 9000, "health_path": "/"},
        plan=Plan(
            processes=(process("engine", "serve"),),
            ports=(9000,),
            http=Http("http://127.0.0.1:9000", "/", ""),
        ),
    ),
    "every key of one node": Case(
        values={
            "command": ["serve", "a b", "*", ""],
            "sidecars": [
                {"name": "ray-head", "command": list(RAY)},
                {"name": "exporter", "command": ["exporter"]},
            ],
            "model": "org/m",
            "served_model_name": "m",
            "host": "::",
            "port": 9000,
            "health_path": "/up",
            "gpus": ["1", "0"],
            "tensor_parallel": 2,
            "leader_address": "10.0.0.1",
            "leader_port": 6379,
            "peers": ["10.0.0.2"],
            "environment": {"B": "spec"},
            "working_directory": "/srv",
        },
        environment={"A": "configured", "B": "configured"},
        facts=AMD,
        plan=Plan(
            processes=tuple(
                Process(
                    name=name,
                    argv=argv,
                    environment={
                        "HIP_VISIBLE_DEVICES": "1,0",
                        "CUDA_VISIBLE_DEVICES": "1,0",
                        "A": "configured",
                        "B": "spec",
                    },
                    working_directory="/srv",
                )
                for name, argv in (
                    ("ray-head", RAY),
                    ("exporter", ("exporter",)),
                    ("engine", ("serve", "a b", "*", "")),
                )
            ),
            ports=(9000,),
            http=Http("http://[::1]:9000", "/up", "m"),
        ),
    ),
    "what waits on one node waits for its own head, which does not": Case(
        values={
            "command": ["serve"],
            "waits_for_leader": True,
            "sidecars": [
                {"name": "head", "command": ["head"], "waits_for_leader": True},
                {"name": "joins", "command": ["joins"], "waits_for_leader": True},
                {"name": "free", "command": ["free"]},
            ],
            "leader_address": "127.0.0.1",
            "leader_port": 6379,
        },
        plan=Plan(
            processes=(
                process("head", "head"),
                process("joins", "joins", waits_for=("127.0.0.1:6379",)),
                process("free", "free"),
                process("engine", "serve", waits_for=("127.0.0.1:6379",)),
            ),
            ports=(6379,),
            http=None,
        ),
    ),
    "a leader without sidecars never waits": Case(
        values={**PAIR, "rank": 0, "command": ["serve"], "waits_for_leader": True},
        facts=LEADER,
        plan=Plan(
            processes=(serves(environment=BETWEEN_NODES | by("eth0")),),
            ports=(6379,),
            http=None,
        ),
    ),
    "a leader and its head": Case(
        values={
            **PAIR,
            "rank": 0,
            "command": ["serve"],
            "port": 9000,
            "health_path": "/health",
            "model": "org/m",
            "waits_for_leader": True,
            "sidecars": [{"name": "ray-head", "command": list(RAY), "waits_for_leader": True}],
            "environment": {"NCCL_SOCKET_IFNAME": "ib"},
        },
        facts=LEADER,
        plan=Plan(
            processes=(
                process(
                    "ray-head",
                    *RAY,
                    environment=BETWEEN_NODES | by("eth0") | {"NCCL_SOCKET_IFNAME": "ib"},
                ),
                serves(
                    *AT_LEADER,
                    environment=BETWEEN_NODES | by("eth0") | {"NCCL_SOCKET_IFNAME": "ib"},
                ),
            ),
            ports=(9000, 6379),
            http=Http("http://127.0.0.1:9000", "/health", "org/m"),
        ),
    ),
    "a leader whose later sidecars wait with IPv6": Case(
        values={
            **PAIR6,
            "rank": 0,
            "command": ["serve"],
            "sidecars": [
                {"name": "free", "command": ["free"]},
                {"name": "joins", "command": ["joins"], "waits_for_leader": True},
            ],
        },
        facts=LEADER6,
        plan=Plan(
            processes=(
                process("free", "free", environment=BETWEEN_NODES6 | by("eth0")),
                process("joins", "joins", environment=BETWEEN_NODES6 | by("eth0"), waits_for=AT_LEADER6),
                serves(environment=BETWEEN_NODES6 | by("eth0")),
            ),
            ports=(6379,),
            http=None,
        ),
    ),
    "a leader that serves where the others meet it claims one port": Case(
        values={**PAIR, "rank": 0, "command": ["serve"], "port": 6379},
        facts=LEADER,
        plan=Plan(
            processes=(serves(environment=BETWEEN_NODES | by("eth0")),),
            ports=(6379,),
            http=None,
        ),
    ),
    "a worker whose processes all wait": Case(
        values={
            **PAIR,
            "rank": 1,
            "command": ["serve"],
            "waits_for_leader": True,
            "sidecars": [{"name": "ray", "command": ["ray"], "waits_for_leader": True}],
        },
        facts=WORKER,
        plan=Plan(
            processes=(
                process("ray", "ray", environment=BETWEEN_NODES | by("bond0.12"), waits_for=AT_LEADER),
                serves(*AT_LEADER, environment=BETWEEN_NODES | by("bond0.12")),
            ),
            ports=(),
            http=None,
        ),
    ),
    "a worker that waits with IPv6 and serves": Case(
        values={
            **PAIR6,
            "rank": 1,
            "command": ["serve"],
            "waits_for_leader": True,
            "host": "fd00::2",
            "port": 9000,
            "health_path": "/health",
        },
        facts=WORKER6,
        plan=Plan(
            processes=(serves(*AT_LEADER6, environment=BETWEEN_NODES6 | by("bond0.12")),),
            ports=(9000,),
            http=Http("http://[fd00::2]:9000", "/health", ""),
        ),
    ),
    "a worker that waits for nobody": Case(
        values={**PAIR, "nodes": 3, "rank": 2, "command": ["serve"]},
        facts=THIRD,
        plan=Plan(
            processes=(serves(environment=BETWEEN_NODES | by("br0")),),
            ports=(),
            http=None,
        ),
    ),
    "ranks that are all on one machine": Case(
        values={
            **PAIR,
            "rank": 0,
            "command": ["serve"],
            "leader_address": "localhost",
            "leader_port": 40000,
        },
        facts=NOWHERE,
        plan=Plan(
            processes=(serves(environment={}),),
            ports=(40000,),
            http=None,
            warnings=(
                "leader_address: ranks on other nodes do not reach the leader by localhost",
                (
                    "leader_port: 40000 is one of those that the kernel gives to anybody "
                    "(32768 to 60999, net.ipv4.ip_local_port_range)"
                ),
            ),
        ),
    ),
}
