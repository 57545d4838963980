"""Fixtures that boot machines; their journal in the report of a test that failed."""

import os
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.machine.host import what_is_missing
from tests.machine.machine import Machine
from tests.machine.node_fixtures import booted_node, booted_pair, node, pair

__all__ = ["booted_node", "booted_pair", "node", "pair"]

HERE = Path(__file__).parent

Boot = Callable[..., Machine]


@pytest.hookimpl(tryfirst=True)  # before -m looks at the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.machine)


@pytest.hookimpl(tryfirst=True)  # before a skip mark of the test's own
def pytest_runtest_setup(item: pytest.Item) -> None:
    missing = what_is_missing()
    if missing and os.environ.get("LLMGWD_REQUIRE_MACHINES") == "1":
        pytest.fail(f"no machine can boot here: {missing}", pytrace=False)
    if missing:
        pytest.skip(f"no machine can boot here: {missing}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed and report.when != "teardown":
        report.sections += [(f"journal of {machine.name}", machine.report()) for machine in Machine.running]
    return report


@pytest.fixture
def boot() -> Iterator[Boot]:
    """Boots machines, `boot("node-a", enable=["llmgwd.service"])`, and removes them after the test."""
    with ExitStack() as machines:

        def one(name: str = "node", **options: object) -> Machine:
            return machines.enter_context(Machine(name, **options))  # type: ignore[arg-type]

        yield one


@pytest.fixture
def machine() -> Iterator[Machine]:
    """A machine of its own for the test; llmgwd is installed and not running."""
    with Machine() as machine:
        yield machine


@pytest.fixture(scope="module")
def shared_machine() -> Iterator[Machine]:
    """One machine for all tests of a module that leave it as it was."""
    with Machine("shared") as machine:
        yield machine
