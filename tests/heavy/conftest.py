"""Heavy tests: with LLMGWD_HEAVY=1 alone are they there; else they are neither run nor told of as skipped.

Those that boot machines are treated as those of tests/machine are.
"""

import os
from typing import Final

import pytest

from tests.machine import conftest as machines
from tests.machine.conftest import (
    boot,
    booted_node,
    booted_pair,
    machine,
    node,
    pair,
    pytest_runtest_makereport,
    shared_machine,
)

__all__ = [
    "boot",
    "booted_node",
    "booted_pair",
    "machine",
    "node",
    "pair",
    "pytest_runtest_makereport",
    "shared_machine",
]

collect_ignore_glob = [] if os.environ.get("LLMGWD_HEAVY") == "1" else ["test_*.py"]

BOOTS: Final = {"boot", "booted_node", "booted_pair", "machine", "shared_machine"}


@pytest.hookimpl(tryfirst=True)  # before -m looks at the marks
def pytest_itemcollected(item: pytest.Item) -> None:
    if BOOTS & {*getattr(item, "fixturenames", ())}:
        item.add_marker(pytest.mark.machine)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("machine"):
        machines.pytest_runtest_setup(item)
