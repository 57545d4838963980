"""What an engine is to the daemon: a name, its traits whatever the spec, and how a spec is planned."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from llmgwd.engines.facts import NodeFacts
from llmgwd.engines.plan import Plan
from llmgwd.model.spec import ShardSpec


class Loading(StrEnum):
    """What a client sees of an engine that loads its model, in words for people."""

    REFUSES = "refuses connections"
    UNAVAILABLE = "answers 503"
    ANSWERS = "answers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """What the rest of the daemon has to know of an engine; the defaults are those of a program without HTTP.

    `port` 0: it has no usual one. `health_path` empty: no HTTP. `requests`: the gauges of /metrics whose sum
    is the number of requests that run or wait; none where it does not tell. `api_key_variable` and
    `api_key_option`: where it takes the key that clients must show. `takes_model` and `takes_args`: whether
    those keys of a spec mean anything to it. `meets_by_address`: over nodes each rank needs an address of
    its node by which the others reach it.
    """

    executable: str = ""
    port: int = 0
    health_path: str = ""
    while_loading: Loading = Loading.REFUSES
    requests: tuple[str, ...] = ()
    api_key_variable: str = ""
    api_key_option: str = ""
    takes_model: bool = True
    takes_args: bool = True
    meets_by_address: bool = True


class Engine(Protocol):
    """A builder of plans. It is pure: all that it knows of the node are the facts that it is given.

    Of each shard the plan says the rest: whether this rank serves HTTP (`http`), what it reserves (`ports`),
    and what each process waits for (`waits_for`).
    """

    @property
    def name(self) -> str: ...

    @property
    def traits(self) -> Traits: ...

    def plan(
        self, spec: ShardSpec, facts: NodeFacts, args: tuple[str, ...], environment: Mapping[str, str]
    ) -> Plan:
        """`args` and `environment` are the configuration's. Raises InvalidSpec, naming the key."""
        ...
