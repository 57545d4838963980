"""Any program: the sidecars of the spec in their order, then its command."""

from collections.abc import Iterator, Mapping

from llmgwd.engines.address import host_port, http_of
from llmgwd.engines.engine import Traits
from llmgwd.engines.environment import between_nodes, layered, visible_gpus
from llmgwd.engines.facts import NodeFacts
from llmgwd.engines.keys import check_has_none
from llmgwd.engines.plan import Plan, Process
from llmgwd.engines.replica import warn_of_gpus, warn_of_own_address, warn_of_ports
from llmgwd.model.addresses import is_unusable
from llmgwd.model.identifiers import ENGINE
from llmgwd.model.spec import ShardSpec, Sidecar


class Command:
    name = "command"
    # Its ranks may be on one machine.
    traits = Traits(takes_model=False, takes_args=False, meets_by_address=False)

    def plan(
        self, spec: ShardSpec, facts: NodeFacts, args: tuple[str, ...], environment: Mapping[str, str]
    ) -> Plan:
        """`args` are empty: this engine takes none."""
        check_has_none(spec, "executor")
        variables = layered(spec, environment, visible_gpus(spec, facts), between_nodes(spec, facts))
        main = Sidecar(name=ENGINE, command=spec.command, waits_for_leader=spec.waits_for_leader)
        return Plan(
            processes=tuple(
                Process(
                    name=process.name,
                    argv=process.command,
                    environment=variables,
                    working_directory=spec.working_directory,
                    waits_for=_waits_for(spec, process, place),
                )
                for place, process in enumerate((*spec.sidecars, main))
            ),
            ports=_ports(spec),
            http=http_of(spec),
            warnings=(
                *warn_of_own_address(spec, facts),
                *_warn_of_leader(spec),
                *warn_of_ports(spec, facts),
                *warn_of_gpus(spec, facts, needed=None),
            ),
        )


def _waits_for(spec: ShardSpec, process: Sidecar, place: int) -> tuple[str, ...]:
    # The leader's port is opened by rank 0 itself: its first process would wait for what comes after it.
    if not process.waits_for_leader or (spec.rank == 0 and place == 0):
        return ()
    return (host_port(spec.leader_address, spec.leader_port),)


def _warn_of_leader(spec: ShardSpec) -> Iterator[str]:
    # No refusal: its ranks may be on one machine, and what it does is not known here.
    if spec.nodes > 1 and is_unusable(spec.leader_address):
        yield f"leader_address: ranks on other nodes do not reach the leader by {spec.leader_address}"


def _ports(spec: ShardSpec) -> tuple[int, ...]:
    waits = spec.waits_for_leader or any(sidecar.waits_for_leader for sidecar in spec.sidecars)
    leads = spec.rank == 0 and (spec.nodes > 1 or waits)
    claimed = (spec.port, spec.leader_port if leads else 0)
    return tuple(dict.fromkeys(port for port in claimed if port))
