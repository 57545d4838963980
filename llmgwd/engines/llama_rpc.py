"""The other ranks of a llama.cpp replica: `rpc-server`, whose devices rank 0 uses (tools/rpc/README.md).

Each is up before rank 0 and knows nothing of the rest. It listens on IPv4 alone (ggml-rpc, transport.cpp).
"""

from collections.abc import Iterator, Mapping
from typing import Final

from llmgwd.engines.environment import layered, visible_gpus
from llmgwd.engines.facts import NodeFacts
from llmgwd.engines.options import ALWAYS_SET, refuse_repeated
from llmgwd.engines.places import beside
from llmgwd.engines.plan import Plan, Process
from llmgwd.engines.replica import (
    check_peers,
    own_address_or_blank,
    warn_of_addresses,
    warn_of_gpus,
    warn_of_ports,
)
from llmgwd.model.addresses import host_and_port, is_ipv6, is_unusable, parsed
from llmgwd.model.identifiers import ENGINE
from llmgwd.model.spec import ShardSpec
from llmgwd.model.wording import refuse

RPC_SERVER: Final = "rpc-server"
# Its name since June 2026 (llama.cpp b9824); one of before may still lie beside it, or be something else.
RPC_SERVER_NOW: Final = "ggml-rpc-server"
OPTIONS: Final[Mapping[str, str]] = {
    "-H": ALWAYS_SET,
    "--host": ALWAYS_SET,
    "-p": "leader_port",
    "--port": "leader_port",
}
DEVICE: Final[Mapping[str, str]] = {"-d": "gpus", "--device": "gpus"}


def plan_peer(spec: ShardSpec, facts: NodeFacts, environment: Mapping[str, str]) -> Plan:
    """`environment` is the configuration's; its `args` are llama-server's, and none for this program."""
    refuse_repeated(spec.args, {**OPTIONS, **(DEVICE if spec.gpus == () else {})}, argparse=False)
    program, *others = _names(spec.executable)
    engine = Process(
        name=ENGINE,
        argv=(program, *lend(spec, facts), *spec.args),
        environment=layered(spec, environment, visible_gpus(spec, facts)),
        working_directory=spec.working_directory,
        or_named=tuple(others),
    )
    return Plan(
        processes=(engine,),
        ports=(spec.leader_port,),
        http=None,
        warnings=(
            *warn_of_addresses(spec, facts),
            *_warn_of_family(facts),
            *warn_of_ports(spec, facts),
            *warn_of_gpus(spec, facts, needed=None),
        ),
    )


def lend(spec: ShardSpec, facts: NodeFacts) -> tuple[str, ...]:
    return (
        "--host", own_address_or_blank(facts),
        "--port", str(spec.leader_port),
        *(("--device", "CPU") if spec.gpus == () else ()),
    )  # fmt: skip


def endpoints(spec: ShardSpec) -> tuple[str, ...]:
    """`host:port` of each peer, as rank 0 is to connect to it; none on one node. Raises InvalidSpec."""
    check_peers(spec)
    found = tuple(_endpoint(peer, spec.leader_port) for peer in spec.peers)
    for place, endpoint in enumerate(found):
        if endpoint.lower() in map(str.lower, found[:place]):
            raise refuse("peers", endpoint, "each of them once")
    return found


def _endpoint(peer: str, port: int) -> str:
    """What rank 0 cannot use it would leave out without a word, and hold that share of the model itself."""
    host, own_port = host_and_port(peer)
    if is_ipv6(host):
        # It reads an endpoint up to the first colon (ggml-rpc.cpp, parse_endpoint).
        raise refuse("peers", peer, "IPv4 addresses or names: rpc-server knows no IPv6")
    if is_unusable(host):
        raise refuse("peers", peer, "addresses by which this node reaches the others")
    return f"{host}:{int(own_port or port)}"


def _names(executable: str) -> tuple[str, ...]:
    """Of its program, to be tried in this order: it lies beside llama-server, unless it is what is named."""
    if RPC_SERVER in executable.rpartition("/")[2]:
        return (executable,)
    return tuple(beside(executable, name) for name in (RPC_SERVER_NOW, RPC_SERVER))


def _warn_of_family(facts: NodeFacts) -> Iterator[str]:
    own = facts.management_address
    if is_unusable(own):
        return  # nothing is started here
    if is_ipv6(own) or parsed(own) is None:  # not even a name: it takes no other than dotted numbers
        yield f"management_address: rpc-server listens on an IPv4 address, and this node's is {own}"
