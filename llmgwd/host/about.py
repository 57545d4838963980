"""What there is to say of this node apart from its shards."""

import platform
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from typing import Final

from llmgwd.config import AgentConfig, Config
from llmgwd.engines.facts import Gpu, NodeFacts
from llmgwd.host import warnings
from llmgwd.host.accelerators import find_gpus
from llmgwd.host.limits import obtainable_memlock
from llmgwd.host.network import (
    LOOPBACK,
    Interfaces,
    Management,
    Unreadable,
    addresses_of,
    ephemeral_ports,
    find_management,
    is_up,
    read_interfaces,
)
from llmgwd.host.rdma import RdmaPort, choose_gid_index, find_ports, is_open_to_programs

# Of the code that runs: what is installed may be another one by now.
VERSION: Final = version("llmgwd")


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """This node as it was when somebody looked."""

    version: str
    node_name: str
    management_address: str
    management_interface: str
    nccl_ib_gid_index: int
    rdma: tuple[RdmaPort, ...]
    gpus: tuple[Gpu, ...]
    engines: tuple[str, ...]
    warnings: tuple[str, ...]
    addresses: tuple[str, ...]
    ephemeral_ports: tuple[int, int]

    @property
    def facts(self) -> NodeFacts:
        """What engines are told of it."""
        # Of the loopback interface they would take 127.0.0.1, whichever address it holds besides.
        interface = "" if self.management_interface == LOOPBACK else self.management_interface
        return NodeFacts(
            management_address=self.management_address,
            management_interface=interface,
            nccl_ib_gid_index=self.nccl_ib_gid_index,
            gpus=self.gpus,
            addresses=self.addresses,
            ephemeral_ports=self.ephemeral_ports,
        )


def look_around(config: Config, engines: Collection[str]) -> About:
    """`engines`: the names of those that there are.

    Asks the drivers' own tools, which may take seconds: belongs in a thread.
    """
    return _look(config, engines, find_gpus())


def look_again(config: Config, engines: Collection[str], before: About) -> About:
    """The same, but for the GPUs, which do not come and go as addresses do. Some milliseconds."""
    return _look(config, engines, before.gpus)


def _look(config: Config, engines: Collection[str], gpus: tuple[Gpu, ...]) -> About:
    agent = config.agent
    interfaces, unreadable = _interfaces()
    management = find_management(agent.management_address, interfaces)
    ports = find_ports(management)
    return About(
        version=VERSION,
        node_name=platform.node(),
        management_address=management.address,
        management_interface=management.interface,
        nccl_ib_gid_index=choose_gid_index(ports, agent.nccl_ib_gid_index),
        rdma=ports,
        gpus=gpus,
        engines=tuple(sorted(name for name in engines if config.engine(name).enabled)),
        warnings=tuple(_warnings(agent, unreadable, management, ports, gpus)),
        addresses=addresses_of(interfaces),
        ephemeral_ports=ephemeral_ports(),
    )


def _interfaces() -> tuple[Interfaces, str]:
    """Those that there are, or why they are not known: a node alone does without."""
    try:
        return read_interfaces(), ""
    except Unreadable as error:
        return {}, str(error)


def _warnings(
    agent: AgentConfig,
    unreadable: str,
    management: Management,
    ports: tuple[RdmaPort, ...],
    gpus: tuple[Gpu, ...],
) -> Iterator[str]:
    if unreadable:
        yield unreadable  # and whether any holds the address cannot be said
    else:
        yield from warnings.of_management(management, up=is_up(management.interface))
    yield from warnings.of_rdma(ports, agent.nccl_ib_gid_index, open_to_programs=is_open_to_programs())
    yield from warnings.of_memlock(agent.limit_memlock, obtainable_memlock(agent.limit_memlock))
    yield from warnings.of_gpus(gpus)
