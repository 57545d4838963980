"""The other ranks of a llama.cpp replica: `rpc-server`, whose devices rank 0 uses (tools/rpc/README.md).

Each is up before rank 0 and knows nothing of the rest. It listens on IPv4 alone (ggml-rpc, transport.cpp).
"""

import ipaddress
from collections.abc import Iterator, Mapping
from typing import Final

from llmgwd.engines.environment import layered, visible_gpus
from llmgwd.engines.facts import NodeFacts
from llmgwd.engines.options import ALWAYS_SET, refuse_repeated
from llmgwd.engines.plan import Plan, Process
from llmgwd.engines.replica import (
    is_ipv6,
    is_unusable,
    own_address_or_blank,
    warn_of_gpus,
    warn_of_ports,
)
from llmgwd.model.errors import InvalidSpec
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
MOST: Final = 65_535


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
            *_warn_of_own_address(facts),
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
    if len(spec.peers) != spec.nodes - 1:
        takes = f"{spec.nodes - 1}: the address of every other node"
        raise InvalidSpec(f"peers: got {len(spec.peers)}, takes {takes}")
    found = tuple(_endpoint(peer, spec.leader_port) for peer in spec.peers)
    again = next((one for place, one in enumerate(found) if one in found[:place]), "")
    if again:
        raise refuse("peers", again, "each of them once")
    return found


def _endpoint(peer: str, port: int) -> str:
    """What rank 0 cannot use it would leave out without a word, and hold that share of the model itself."""
    host, colon, own_port = peer.partition(":")
    if is_ipv6(own_port) or peer.startswith("["):
        # It reads an endpoint up to the first colon (ggml-rpc.cpp, parse_endpoint).
        raise refuse("peers", peer, "IPv4 addresses or names: rpc-server knows no IPv6")
    if is_unusable(host):
        raise refuse("peers", peer, "addresses by which this node reaches the others")
    if not colon:
        return f"{host}:{port}"
    if not own_port.isdecimal() or not 0 < int(own_port) <= MOST:
        raise refuse("peers", peer, f"ports from 1 to {MOST}")
    return f"{host}:{int(own_port)}"


def _names(executable: str) -> tuple[str, ...]:
    """Of its program, to be tried in this order: it lies beside llama-server, unless it is what is named."""
    folder, slash, name = executable.rpartition("/")
    if RPC_SERVER in name:
        return (executable,)
    return tuple(f"{folder}{slash}{there}" for there in (RPC_SERVER_NOW, RPC_SERVER))


def _warn_of_own_address(facts: NodeFacts) -> Iterator[str]:
    own = facts.management_address
    if is_unusable(own):
        return  # nothing is started here
    try:
        ipaddress.IPv4Address(own)
    except ValueError:  # not even a name: it takes no other than dotted numbers
        yield f"management_address: rpc-server listens on an IPv4 address, and this node's is {own}"
