"""Scopes that carry our names and that no readable record describes: listed, never touched unasked."""

from collections.abc import Iterable
from dataclasses import dataclass

from llmgwd.host.cgroup import Cgroup
from llmgwd.host.scope_names import shard_id
from llmgwd.host.systemd import Scope
from llmgwd.supervisor.record import Record


@dataclass(frozen=True, slots=True)
class Orphan:
    """`id` is read from the unit's name; of a shortened name it is what there is of it."""

    unit: str
    control_group: str
    pids: tuple[int, ...]
    id: str


def find_orphans(scopes: Iterable[Scope], live: Iterable[Record]) -> tuple[Orphan, ...]:
    """Those among `scopes` that hold processes and belong to none of the `live` shards."""
    known = {record.unit: record.invocation_id for record in live}
    found = []
    for scope in scopes:
        # A start that is under way does not know its invocation yet.
        if known.get(scope.unit, "other") in {scope.invocation_id, ""}:
            continue
        pids = Cgroup(scope.control_group).pids()
        if pids:
            found.append(Orphan(scope.unit, scope.control_group, pids, shard_id(scope.unit)))
    return tuple(found)
