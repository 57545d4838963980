"""Scopes that carry our names and that no readable record describes."""

from dataclasses import replace
from pathlib import Path

import pytest

from llmgwd.host import cgroup
from llmgwd.host.scope_names import scope_name
from llmgwd.host.systemd import Scope
from llmgwd.model.lifecycle import State
from llmgwd.supervisor.orphans import Orphan, find_orphans
from llmgwd.supervisor.record import Record
from tests.fakes.cgroups import Cgroups
from tests.supervisor.test_record import simple


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cgroups:
    monkeypatch.setattr(cgroup, "ROOT", tmp_path)
    return Cgroups(tmp_path)


def scope(id: str = "a", invocation_id: str = "1") -> Scope:
    unit = scope_name(id)
    return Scope(unit, "active", invocation_id, f"/llmgw.slice/{unit}")


def record(invocation_id: str) -> Record:
    return replace(simple(), unit=scope_name("a"), invocation_id=invocation_id, state=State.READY)


def test_a_populated_scope_without_a_record_is_an_orphan(groups: Cgroups) -> None:
    there = scope("x/ü")
    groups.put(there.control_group, [71, 72])
    assert find_orphans([there], []) == (Orphan(there.unit, there.control_group, (71, 72), "x/ü"),)


def test_of_a_shortened_name_there_is_what_there_is(groups: Cgroups) -> None:
    there = scope("x" * 256)
    groups.put(there.control_group, [71])
    (orphan,) = find_orphans([there], [])
    assert orphan.id.startswith("x" * 120 + "/")


def test_an_empty_scope_is_no_orphan(groups: Cgroups) -> None:
    groups.put(scope().control_group, [])
    assert find_orphans([scope()], []) == ()


def test_the_scope_of_a_live_shard_is_no_orphan(groups: Cgroups) -> None:
    groups.put(scope().control_group, [71])
    assert find_orphans([scope()], [record("1")]) == ()


def test_the_scope_of_a_shard_that_is_being_started_is_no_orphan(groups: Cgroups) -> None:
    groups.put(scope().control_group, [71])
    assert find_orphans([scope()], [record("")]) == ()


def test_another_run_under_the_name_of_a_live_shard_is_an_orphan(groups: Cgroups) -> None:
    groups.put(scope().control_group, [71])
    assert [orphan.unit for orphan in find_orphans([scope(invocation_id="2")], [record("1")])] == [
        scope_name("a")
    ]
