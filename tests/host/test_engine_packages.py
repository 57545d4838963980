"""Engines that other packages bring, and those that cannot be used."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from llmgwd.engines.plan import Http, Plan, Process
from llmgwd.engines.registry import Engines
from llmgwd.host.engine_packages import GROUP, Brought, find_engines
from llmgwd.model.spec import Defaults, parse_spec
from tests import engine_package
from tests.engines.specs import NVIDIA

Lay = Callable[[Mapping[str, str]], None]

TRAITS = "from llmgwd.engines.engine import Traits\n"
GOOD = """
class {name}:
    name = "{name}"
    traits = Traits()
    def plan(self, spec, facts, args, environment): ...
"""


@pytest.fixture
def lay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lay:
    """Installs files of packages for this test."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(tmp_path))

    def one(files: Mapping[str, str]) -> None:
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
            for module in {path.stem} & (set(sys.modules) - before):
                del sys.modules[module]

    return one


@pytest.fixture(autouse=True)
def forgotten() -> object:
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


def package(name: str, code: str, **points: str) -> dict[str, str]:
    return {f"{name}.py": TRAITS + code} | engine_package.installed(name, {GROUP: points})


def test_where_no_package_brings_one_there_is_none() -> None:
    assert find_engines() == Brought((), (), ())


def test_the_package_of_the_documentation_brings_an_engine_that_plans(lay: Lay) -> None:
    lay(engine_package.files())
    brought = find_engines()
    assert (brought.names, brought.complaints) == (("textgen",), ())
    engine = Engines(brought.engines)["textgen"]
    defaults = Defaults(
        port=engine.traits.port,
        health_path=engine.traits.health_path,
        executable=engine.traits.executable,
        user="llmgw",
        group="",
        working_directory="/var/lib/llmgw",
        stop_timeout_s=60,
        rendezvous_timeout_s=300,
        takes_model=True,
        takes_args=True,
    )
    spec = parse_spec("a", {"engine": "textgen", "model": "m", "gpus": ["1"], "args": ["--x"]}, defaults)
    assert engine.plan(spec, NVIDIA, ("--y",), {"A": "1"}) == Plan(
        processes=(
            Process(
                "engine",
                ("textgen-server", "--model", "m", "--host", "127.0.0.1", "--port", "8500", "--y", "--x"),
                {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "1", "A": "1"},
                "/var/lib/llmgw",
            ),
        ),
        ports=(8500,),
        http=Http("http://127.0.0.1:8500", "/health", "m"),
    )


def test_the_example_of_the_documentation_is_as_short_as_it_says() -> None:
    code = engine_package.files()["llmgwd_textgen.py"]
    assert len(code.splitlines()) <= 31


def test_one_that_cannot_be_used_costs_the_others_nothing(lay: Lay) -> None:
    lay(package("good", GOOD.format(name="fine"), fine="good:fine"))
    lay(package("broken", "raise RuntimeError('no such library')", broken="broken:Broken"))
    lay(package("absent", "", absent="absent:Nothing"))
    lay(package("other", GOOD.format(name="this"), that="other:this"))
    lay(package("bare", 'class Bare:\n    name = "bare"\n', bare="bare:Bare"))
    lay(
        package("planless", 'class P:\n    name = "planless"\n    traits = Traits()\n', planless="planless:P")
    )
    brought = find_engines()
    missing = "AttributeError: module 'absent' has no attribute 'Nothing'"
    assert [engine.name for engine in brought.engines] == ["fine"]
    assert brought.names == ("absent", "bare", "broken", "fine", "planless", "that")
    assert brought.complaints == (
        f"engine absent of package absent cannot be used: {missing}",
        "engine bare of package bare cannot be used: its traits are no Traits",
        "engine broken of package broken cannot be used: RuntimeError: no such library",
        "engine planless of package planless cannot be used: it has no plan",
        "engine that of package other cannot be used: it calls itself 'this'",
    )


def test_the_names_that_are_there_stay_what_they_are(lay: Lay) -> None:
    lay(package("mine", GOOD.format(name="vllm"), vllm="mine:vllm"))
    lay(package("first", GOOD.format(name="same"), same="first:same"))
    lay(package("second", GOOD.format(name="same"), same="second:same"))
    brought = find_engines()
    assert [engine.name for engine in brought.engines] == ["same"]
    assert len([text for text in brought.complaints if text.endswith("the name is taken")]) == 2


STOPS = """
raise {error}
"""
RAISES = """
class Raises:
    name = "raises"
    @property
    def traits(self):
        raise KeyError("traits")
class NameRaises:
    @property
    def name(self):
        raise RuntimeError("no name")
    traits = Traits()
"""


@pytest.mark.parametrize(
    ("error", "why"),
    [
        ("SystemExit(0)", "SystemExit: 0"),
        ("SystemExit('no GPU')", "SystemExit: no GPU"),
        ("OSError(2, 'No such file or directory')", "FileNotFoundError: [Errno 2] No such file or directory"),
    ],
)
def test_one_that_would_end_the_daemon_at_its_import_does_not(lay: Lay, error: str, why: str) -> None:
    lay(package("good", GOOD.format(name="fine"), fine="good:fine"))
    lay(package("stops", STOPS.format(error=error), stops="stops:Stops"))
    brought = find_engines()
    assert [engine.name for engine in brought.engines] == ["fine"]
    assert (brought.names, brought.complaints) == (
        ("fine", "stops"),
        (f"engine stops of package stops cannot be used: {why}",),
    )


def test_one_that_raises_when_it_is_looked_at_is_left_out(lay: Lay) -> None:
    lay(package("raises", RAISES, raises="raises:Raises", unnamed="raises:NameRaises"))
    lay(package("wants", "class Wants:\n    def __init__(self, place): ...\n", wants="wants:Wants"))
    brought = find_engines()
    missing = "TypeError: Wants.__init__() missing 1 required positional argument: 'place'"
    assert (brought.names, brought.engines) == (("raises", "unnamed", "wants"), ())
    assert brought.complaints == (
        "engine raises of package raises cannot be used: KeyError: 'traits'",
        "engine unnamed of package raises cannot be used: RuntimeError: no name",
        f"engine wants of package wants cannot be used: {missing}",
    )


def test_a_package_whose_entry_points_cannot_be_read_costs_the_others_nothing(lay: Lay) -> None:
    lay(package("good", GOOD.format(name="fine"), fine="good:fine"))
    lay({"odd-1.dist-info/METADATA": "Name: odd\n", "odd-1.dist-info/entry_points.txt": "[any]\nnothing\n"})
    lay({"bare-1.dist-info/entry_points.txt": "[any]\nnothing\n"})
    brought = find_engines()
    assert (brought.names, [engine.name for engine in brought.engines]) == (("fine",), ["fine"])
    assert sorted(text.partition(" cannot be read: TypeError: ")[0] for text in brought.complaints) == [
        "the entry points of an unknown package",
        "the entry points of package odd",
    ]


def test_a_package_without_a_name_brings_its_engines_and_its_complaints(lay: Lay) -> None:
    for name, code in (("good", GOOD.format(name="fine")), ("broken", "raise KeyError")):
        files = package(name, code, **{"fine" if name == "good" else "broken": f"{name}:fine"})
        lay({path: text for path, text in files.items() if not path.endswith("METADATA")})
    brought = find_engines()
    assert (brought.names, [engine.name for engine in brought.engines]) == (("broken", "fine"), ["fine"])
    assert brought.complaints == ("engine broken of an unknown package cannot be used: KeyError",)


def test_a_package_that_is_installed_twice_brings_its_engines_once(lay: Lay) -> None:
    lay(package("good", GOOD.format(name="fine"), fine="good:fine"))
    lay(engine_package.installed("good-old", {GROUP: {"fine": "good:fine"}}))
    brought = find_engines()
    assert (brought.names, len(brought.engines), brought.complaints) == (("fine",), 1, ())
