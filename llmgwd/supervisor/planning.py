"""From a caller's values to a spec and its plan, by the configuration and the facts of this node."""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields

from llmgwd.config import Config, EngineConfig
from llmgwd.engines.engine import Engine
from llmgwd.engines.facts import NodeFacts, find_gpu
from llmgwd.engines.plan import Plan
from llmgwd.engines.registry import Engines
from llmgwd.engines.soundness import check_sound
from llmgwd.model.addresses import is_unusable
from llmgwd.model.errors import (
    EngineUnavailable,
    InvalidSpec,
    LimitExceeded,
    Refusal,
    ResourceBusy,
    SpecConflict,
)
from llmgwd.model.spec import Defaults, ShardSpec, check_id, parse_spec
from llmgwd.model.wording import as_typed, raised, refuse
from llmgwd.supervisor.record import Record

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Planner:
    """`config` is replaced when the files are read again, `facts` when the network changes, too."""

    config: Config
    engines: Engines
    facts: NodeFacts
    user_mode: bool = False

    def plan(self, id: str, values: Mapping[str, object]) -> tuple[ShardSpec, Plan]:
        """Raises InvalidSpec or LimitExceeded, naming the key; EngineUnavailable, see `_plan`."""
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
        return spec, _plan(engine, spec, self.facts, configured)

    def check_node(self, spec: ShardSpec) -> None:
        """Raises InvalidSpec for what only here is wrong: a GPU in two spellings, no address for others."""
        seen: dict[str, str] = {}
        for gpu in spec.gpus or ():
            twin = seen.setdefault(self._identity(gpu), gpu)
            if twin != gpu:
                raise refuse("gpus", gpu, f"each once: on this node that is {twin}")
        meets = self.engines[spec.engine].traits.meets_by_address
        if spec.nodes == 1 or not meets or not is_unusable(self.facts.management_address):
            return
        has = f"has {self.facts.management_address}" if self.facts.management_address else "has none"
        raise InvalidSpec(
            f"nodes: got {spec.nodes}, which needs an address by which the other nodes reach this one, "
            f"and it {has}: set management_address in [agent] of its configuration"
        )

    def check_claims(self, plan: Plan, spec: ShardSpec, live: Iterable[Record]) -> None:
        """Raises ResourceBusy, naming the port or GPU and who holds it."""
        for other in live:
            for port in plan.ports:
                if port in other.plan.ports:
                    raise ResourceBusy(f"port {port} is claimed by shard {other.id}")
            held = {self._identity(gpu) for gpu in other.spec.gpus or ()}
            for gpu in spec.gpus or ():
                if self._identity(gpu) in held:
                    raise ResourceBusy(f"GPU {gpu} is claimed by shard {other.id}")

    def _identity(self, gpu: str) -> str:
        """An index and a UUID may name the same GPU."""
        known = find_gpu(gpu, self.facts.gpus)
        if known is None:
            return gpu
        return known.uuid or str(known.index)


def _plan(engine: Engine, spec: ShardSpec, facts: NodeFacts, configured: EngineConfig) -> Plan:
    """Raises EngineUnavailable where an engine of another package makes no plan, or none that can be run."""
    try:
        plan = engine.plan(spec, facts, configured.args, configured.environment)
    except Refusal:
        raise
    except (Exception, SystemExit) as error:  # another's code may raise anything
        log.exception("engine %s cannot plan", engine.name)
        raise EngineUnavailable(f"engine {engine.name} makes no plan: {raised(error)}") from error
    try:
        return check_sound(plan)
    except (InvalidSpec, LimitExceeded) as error:
        raise EngineUnavailable(
            f"engine {engine.name} makes a plan that cannot be run: {error.text}"
        ) from error


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
