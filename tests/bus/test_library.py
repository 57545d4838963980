"""Which library is used, and where the bus is looked for."""

import importlib.util
import os
import subprocess
import sys

import pytest

from llmgwd.bus.address import addresses, socket_address

HAS_FAST = importlib.util.find_spec("dbus_fast") is not None
NEEDS_FAST = pytest.mark.skipif(not HAS_FAST, reason="dbus-fast is an extra and not installed")


def run(code: str, library: str = "") -> str:
    """What a new interpreter prints, or the last line of what it says on its way out."""
    environment = {**os.environ, "LLMGWD_BUS_LIBRARY": library}
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else done.stderr.splitlines()[-1]


SAY = "import sys; {}; from llmgwd.bus.library import NAME; print(NAME)"


def test_dbus_next_is_used_where_it_is_asked_for() -> None:
    assert run(SAY.format("0"), "dbus-next") == "dbus-next"


@NEEDS_FAST
def test_dbus_fast_is_used_where_it_is_installed() -> None:
    assert run(SAY.format("0")) == "dbus-fast"
    assert run(SAY.format("sys.modules['dbus_next'] = None")) == "dbus-fast"


def test_dbus_next_is_used_where_dbus_fast_is_not_installed() -> None:
    assert run(SAY.format("sys.modules['dbus_fast'] = None")) == "dbus-next"


@NEEDS_FAST
def test_dbus_next_is_used_where_dbus_fast_is_too_old() -> None:
    old = "import types; version = types.ModuleType('v'); version.__version__ = '1.84.2'"
    code = f"{old}; sys.modules['dbus_fast.__version__'] = version"
    assert run(SAY.format(code)) == "dbus-next"
    assert run(SAY.format(code), "dbus-fast") == "ImportError: dbus-fast 1.84.2 is too old, 2.20 is needed"


def test_a_library_that_nobody_knows_is_refused() -> None:
    assert run(SAY.format("0"), "dbus-slow") == (
        "ImportError: LLMGWD_BUS_LIBRARY is 'dbus-slow', not one of dbus-fast, dbus-next"
    )


@pytest.mark.parametrize("library", ["dbus-next", pytest.param("dbus-fast", marks=NEEDS_FAST)])
def test_the_client_side_imports_no_glib(library: str) -> None:
    code = "import sys, llmgwd.bus.connection; print('gi' in sys.modules)"
    assert run(code, library) == "False"


def test_the_system_bus_is_where_the_environment_says_or_where_it_always_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("DBUS_SYSTEM_BUS_ADDRESS", raising=False)
    assert addresses("system") == ("unix:path=/run/dbus/system_bus_socket",)
    monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path=/a;unix:abstract=b")
    assert addresses("system") == ("unix:path=/a", "unix:abstract=b")


def test_the_session_bus_is_where_the_environment_says_or_in_the_runtime_directory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("DBUS_SESSION_BUS_ADDRESS", raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/7")
    assert addresses("session") == ("unix:path=/run/user/7/bus",)
    monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path=/a,guid=12")
    assert addresses("session") == ("unix:path=/a,guid=12",)


def test_an_address_names_a_socket() -> None:
    written = ["unix:path=/a%20b,guid=12", "unix:guid=12,path=/a", "unix:abstract=/tmp/x"]
    assert [socket_address(address) for address in written] == ["/a b", "/a", "\0/tmp/x"]


@pytest.mark.parametrize("address", ["", "unix:", "tcp:host=a,port=1", "unixexec:path=/bin/true", "/run/bus"])
def test_what_is_no_socket_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match="not the address of a UNIX socket"):
        socket_address(address)
