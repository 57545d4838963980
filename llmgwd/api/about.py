"""What there is to say of this node apart from its shards."""

import platform
from dataclasses import dataclass
from importlib.metadata import version

from llmgwd.config import Config
from llmgwd.engines.plan import NodeFacts
from llmgwd.engines.registry import ENGINES
from llmgwd.host.accelerators import Gpu, find_gpus
from llmgwd.host.network import find_management
from llmgwd.host.rdma import RdmaPort, choose_gid_index, find_ports


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """This node, as far as it does not change while the daemon runs."""

    version: str
    node_name: str
    management_address: str
    management_interface: str
    nccl_ib_gid_index: int
    rdma: tuple[RdmaPort, ...]
    gpus: tuple[Gpu, ...]
    engines: tuple[str, ...]
    warnings: tuple[str, ...]

    @property
    def facts(self) -> NodeFacts:
        """What engines are told of it."""
        return NodeFacts(
            management_address=self.management_address,
            management_interface=self.management_interface,
            nccl_ib_gid_index=self.nccl_ib_gid_index,
            gpu_vendor=self.gpus[0].vendor if self.gpus else "",
        )


def look_around(config: Config) -> About:
    """Asks the drivers' own tools, which may take seconds: belongs in a thread."""
    agent = config.agent
    management = find_management(agent.management_address)
    ports = find_ports()
    return About(
        version=version("llmgwd"),
        node_name=platform.node(),
        management_address=management.address,
        management_interface=management.interface,
        nccl_ib_gid_index=choose_gid_index(ports, agent.nccl_ib_gid_index),
        rdma=ports,
        gpus=find_gpus(),
        engines=tuple(sorted(name for name in ENGINES if config.engine(name).enabled)),
        warnings=(),
    )
