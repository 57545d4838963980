"""What of llmgwd.host takes root and a machine of its own: full disks, disks without programs, groups."""

import json

from tests.machine.machine import TREE_INSIDE, Machine


def inside(machine: Machine, step: str) -> object:
    """The result of a step of gate_inside.py."""
    command = ["/usr/bin/python3", "-B", "-m", "tests.machine.gate_inside", step]
    return json.loads(machine.run(command, environment={"PYTHONPATH": TREE_INSIDE}).stdout)


def test_a_full_disk_loses_no_exit_status_and_lets_nothing_start_without_one(shared_machine: Machine) -> None:
    assert inside(shared_machine, "full_disk") == [
        "139",
        "closed",
        "",
        "exit file /run/small-disk/b.exits/engine: No space left on device",
    ]


def test_a_full_disk_keeps_the_record_of_before(shared_machine: Machine) -> None:
    assert inside(shared_machine, "full_disk_of_records") == [
        "No space left on device",
        {"a": {"state": "ready"}},
        [".lock", "a.json", "filler"],
    ]


def test_a_program_on_a_disk_where_nothing_may_be_run_is_refused_to_root_as_well(
    shared_machine: Machine,
) -> None:
    said = [
        f"executable /run/small-disk/{name} may not be run by user {user}"
        for name in ("program", "script")
        for user in ("0", "llmgw")
    ]
    assert inside(shared_machine, "noexec") == said


def test_an_engine_can_neither_kill_its_gate_nor_forge_its_status(shared_machine: Machine) -> None:
    assert inside(shared_machine, "attack") == "9"


def test_a_group_is_waited_for_until_the_last_one_has_left(shared_machine: Machine) -> None:
    assert inside(shared_machine, "group") == {
        "populated": True,
        "complete": True,
        "empty before 0": False,
        "empty before 1": False,
        "populated at last": False,
    }
