"""From a caller's values to a spec and its plan, by the configuration and the facts of this node."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields

from llmgwd.config import Config
from llmgwd.engines import registry
from llmgwd.engines.plan import NodeFacts, Plan
from llmgwd.host.accelerators import Gpu
from llmgwd.model.errors import InvalidSpec, ResourceBusy, SpecConflict
from llmgwd.model.spec import Defaults, ShardSpec, check_id, parse_spec, read_engine
from llmgwd.model.wording import as_typed
from llmgwd.supervisor.record import Record


@dataclass(slots=True)
class Planner:
    """`config` is replaced when the files are read again."""

    config: Config
    facts: NodeFacts
    gpus: tuple[Gpu, ...] = ()
    user_mode: bool = False

    def plan(self, id: str, values: Mapping[str, object]) -> tuple[ShardSpec, Plan]:
        """Raises InvalidSpec or LimitExceeded, naming the key."""
        check_id(id)
        name = read_engine(values)
        engine = registry.find(name)
        configured = self.config.engine(name)
        if not configured.enabled:
            raise InvalidSpec(f"engine: {name} is not enabled in this node's configuration")
        defaults = Defaults(
            port=engine.default_port,
            health_path=engine.health_path,
            executable=configured.executable or engine.default_executable,
            user=configured.user,
            group=configured.group,
            working_directory=configured.working_directory,
            stop_timeout_s=self.config.agent.stop_timeout_s,
            rendezvous_timeout_s=self.config.agent.rendezvous_timeout_s,
            takes_model=engine.takes_model,
            takes_args=engine.takes_args,
            takes_user=not self.user_mode,
        )
        spec = parse_spec(id, values, defaults)
        return spec, engine.plan(spec, self.facts, configured.args, configured.environment)

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
        return next((known.uuid or gpu for known in self.gpus if gpu in {str(known.index), known.uuid}), gpu)


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
