"""What the fixtures do for a test: skip it with a reason, and show the journals when it failed."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.machine import conftest
from tests.machine.host import what_is_missing
from tests.machine.layer import TREE

FAILING = """
    import pytest

    def test_that_fails(machine):
        machine.run(["systemctl", "start", "llmgw.slice"])
        machine.run(["systemd-run", "--quiet", "--wait", "-pLogNamespace=llmgw", "echo", "engine speaking"])
        machine.run(["logger", "host speaking"])
        pytest.fail("on purpose")
"""


def test_a_failed_test_has_both_journals_in_its_report(tmp_path: Path) -> None:
    module = tmp_path / "test_failing.py"
    module.write_text(textwrap.dedent(FAILING))
    ran = subprocess.run(
        [
            sys.executable, "-m", "pytest", "-c", os.devnull, "--rootdir", str(tmp_path),
            "-p", "no:cacheprovider", "-p", "tests.machine.conftest", str(module),
        ],
        cwd=TREE,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )  # fmt: skip
    lines = ran.stdout.splitlines()
    for said in ("journal of node", "engine speaking", "host speaking"):
        assert [line for line in lines if said in line and "machine.run" not in line], ran.stdout


def test_where_no_machine_can_boot_a_test_is_skipped_or_fails_if_it_must_not(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conftest, "what_is_missing", lambda: "needs root")
    monkeypatch.delenv("LLMGWD_REQUIRE_MACHINES", raising=False)
    with pytest.raises(pytest.skip.Exception, match=r"^no machine can boot here: needs root$"):
        conftest.pytest_runtest_setup(request.node)
    monkeypatch.setenv("LLMGWD_REQUIRE_MACHINES", "1")
    with pytest.raises(pytest.fail.Exception, match=r"^no machine can boot here: needs root$"):
        conftest.pytest_runtest_setup(request.node)


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    look = what_is_missing.__wrapped__
    monkeypatch.setenv("PATH", str(Path("/nonexistent")))
    assert look() == "systemd-nspawn is not installed"
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert look() == "needs root"
