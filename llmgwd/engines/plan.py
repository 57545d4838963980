"""The plan: the command lines that a spec becomes on one node, and what there is to watch about them."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Process:
    """One command line. `argv[0]` is as spec or configuration name it; the node looks for it in PATH.

    `environment` is only what the plan, the engine's configuration and the spec set. Each `host:port` in
    `waits_for` accepts connections before the process may run. `or_named`: other names of `argv[0]`, to be
    tried in their order where it is not there.
    """

    name: str
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    working_directory: str
    waits_for: tuple[str, ...] = ()
    or_named: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Http:
    """Where the engine answers: `base_url` without a slash at its end, to be asked from this node.

    `served_model`: what /v1/models must list, empty where that is not to be asked. `timeout_s`: how long an
    answer may take. `is_endpoint` false: it is a sign of life only, of a rank that serves nobody.
    """

    base_url: str
    health_path: str
    served_model: str
    timeout_s: float = 2.0
    is_endpoint: bool = True


@dataclass(frozen=True, slots=True)
class Plan:
    """`processes` in the order of their start, the last one named "engine". `ports`: what the shard claims of
    the node, to serve and to meet its other ranks. `http` None: ready by staying alive. `warnings`: what
    looks wrong, though the engine may know better."""

    processes: tuple[Process, ...]
    ports: tuple[int, ...]
    http: Http | None
    warnings: tuple[str, ...] = ()
