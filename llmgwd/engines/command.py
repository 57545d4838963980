"""Any program: the sidecars of the spec in their order, then its command."""

from collections.abc import Mapping

from llmgwd.engines.address import host_port, http_of
from llmgwd.engines.environment import environment_of
from llmgwd.engines.plan import NodeFacts, Plan, Process
from llmgwd.model.identifiers import ENGINE
from llmgwd.model.spec import ShardSpec, Sidecar


class Command:
    name = "command"
    default_port = 0
    health_path = ""
    default_executable = ""
    takes_model = False
    takes_args = False

    def plan(
        self, spec: ShardSpec, facts: NodeFacts, args: tuple[str, ...], environment: Mapping[str, str]
    ) -> Plan:
        """`args` are empty: this engine takes none."""
        variables = environment_of(spec, facts, environment)
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
            warnings=(),
        )


def _waits_for(spec: ShardSpec, process: Sidecar, place: int) -> tuple[str, ...]:
    # The leader's port is opened by rank 0 itself: its first process would wait for what comes after it.
    if not process.waits_for_leader or (spec.rank == 0 and place == 0):
        return ()
    return (host_port(spec.leader_address, spec.leader_port),)


def _ports(spec: ShardSpec) -> tuple[int, ...]:
    waits = spec.waits_for_leader or any(sidecar.waits_for_leader for sidecar in spec.sidecars)
    leads = spec.rank == 0 and (spec.nodes > 1 or waits)
    claimed = (spec.port, spec.leader_port if leads else 0)
    return tuple(dict.fromkeys(port for port in claimed if port))
