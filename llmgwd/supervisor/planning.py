"""From a caller's values to a spec and its plan, by the configuration and the facts of this node."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields

from llmgwd.config import Config
from llmgwd.engines.facts import NodeFacts, find_gpu
from llmgwd.engines.plan import Plan
from llmgwd.engines.registry import Engines
from llmgwd.engines.replica import is_unusable
from llmgwd.model.errors import InvalidSpec, ResourceBusy, SpecConflict
from llmgwd.model.spec import COMMAND, Defaults, ShardSpec, check_id, parse_spec
from llmgwd.model.wording import as_typed, refuse
from llmgwd.supervisor.record import Record


@dataclass(slots=True)
class Planner:
    """`config` and `facts` are replaced when the files are read again."""

    config: Config
    engines: Engines
    facts: NodeFacts
    user_mode: bool = False

    def plan(self, id: str, values: Mapping[str, object]) -> tuple[ShardSpec, Plan]:
        """Raises InvalidSpec or LimitExceeded, naming the key."""
        check_id(id)
        engine = self.engines.asked(values)
        configured = self.config.engine(engine.name)
        if not configured.enabled:
            raise InvalidSpec(f"engine: {engine.name} is not enabled in this node's configuration")
        traits = engine.traits
        defaults = Defaults(
            port=traits.port,
            health_path=traits.health_path,
            executable=configured.executable or traits.executable,
            user=configured.user,
            group=configured.group,
            working_directory=configured.working_directory,
            stop_timeout_s=self.config.agent.stop_timeout_s,
            rendezvous_timeout_s=self.config.agent.rendezvous_timeout_s,
            takes_model=traits.takes_model,
            takes_args=traits.takes_args,
            takes_user=not self.user_mode,
        )
        spec = parse_spec(id, values, defaults)
        return spec, engine.plan(spec, self.facts, configured.args, configured.environment)

    def check_node(self, spec: ShardSpec) -> None:
        """Raises InvalidSpec where this node cannot be one of several."""
        # What a `command` does is not known here: its ranks may be on one machine.
        if spec.nodes == 1 or spec.engine == COMMAND or not is_unusable(self.facts.management_address):
            return
        has = self.facts.management_address or "none"
        raise refuse(
            "nodes",
            spec.nodes,
            f"1 on this node, whose management address is {has}: set management_address in its configuration",
        )

    def check_claims(self, plan: Plan, spec: ShardSpec, live: Iterable[Record]) -> None:
        """Raises ResourceBusy, naming the port or GPU and who holds it."""
        for other in live:
            for port in plan.ports:
                if port in other.plan.ports:
                    raise ResourceBusy(f"port {port} is claimed by shard {other.id}")
            held = {self._uuid(gpu) for gpu in other.spec.gpus or ()}
            for gpu in spec.gpus or ():
                if self._uuid(gpu) in held:
                    raise ResourceBusy(f"GPU {gpu} is claimed by shard {other.id}")

    def _uuid(self, gpu: str) -> str:
        """An index and a UUID may name the same GPU."""
        known = find_gpu(gpu, self.facts.gpus)
        return known.uuid or str(known.index) if known else gpu


def check_same(id: str, running: ShardSpec, asked: ShardSpec) -> None:
    """Raises SpecConflict with the first key that differs; values of the environment are not shown."""
    for item in fields(ShardSpec):
        ours, theirs = getattr(running, item.name), getattr(asked, item.name)
        if ours == theirs:
            continue
        if item.name == "environment":
            names = sorted(name for name in {*ours, *theirs} if ours.get(name) != theirs.get(name))
            raise SpecConflict(f"shard {id} runs with another environment: {', '.join(names)} differ")
        raise SpecConflict(f"shard {id} runs with {item.name} {_shown(ours)}, asked for {_shown(theirs)}")


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(str(entry) for entry in value) + "]"
    return "none" if value is None or value == "" else str(as_typed(value))
