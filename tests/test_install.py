"""What `make install` lays down: every file where a package would have it, offline, for any PREFIX."""

import json
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from llmgwd.config import AgentConfig, EngineConfig, parse_config
from llmgwd.engines.registry import Engines

TREE = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((TREE / "pyproject.toml").read_text())["project"]
PYTHON = "/usr/bin/python3"
ENGINES = tuple(Engines())


def make_install(destdir: Path, *settings: str) -> str:
    """What it said on standard error."""
    command = ["make", "--no-print-directory", "install", f"DESTDIR={destdir}", *settings]
    made = subprocess.run(command, cwd=TREE, capture_output=True, text=True, timeout=60, check=False)
    assert made.returncode == 0, made.stderr
    return made.stderr


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    stage = tmp_path_factory.mktemp("stage")
    make_install(stage, "PREFIX=/usr")
    return stage


def modules_directory(stage: Path) -> Path:
    (package,) = stage.glob("usr/lib/python3*/*-packages/llmgwd")
    return package.parent


def ask(stage: Path, program: str) -> str:
    """What the distribution's Python prints with the stage's modules before its own."""
    command = [
        PYTHON,
        "-sPc",
        f"import sys; sys.path.insert(0, {str(modules_directory(stage))!r}); {program}",
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout.strip()


def test_every_file_is_where_a_package_has_it(stage: Path) -> None:
    packages = modules_directory(stage).relative_to(stage)
    files = {str(path.relative_to(stage)) for path in stage.rglob("*") if path.is_file()}
    modules = {path for path in files if path.startswith(f"{packages}/llmgwd/")}
    info = f"{packages}/llmgwd-{PROJECT['version']}.dist-info"
    assert files - modules == {
        "etc/llmgwd/llmgwd.toml",
        "usr/bin/llmgwctl",
        "usr/bin/llmgwd",
        f"{info}/INSTALLER",
        f"{info}/METADATA",
        f"{info}/entry_points.txt",
        "usr/lib/systemd/journald@llmgw.conf.d/llmgwd.conf",
        "usr/lib/systemd/system/llmgw-engines.target",
        "usr/lib/systemd/system/llmgw.slice",
        "usr/lib/systemd/system/llmgwd.service",
        "usr/lib/systemd/system/systemd-journald@llmgw.service.d/llmgwd.conf",
        "usr/lib/systemd/user/llmgw.slice",
        "usr/lib/systemd/user/llmgwd.service",
        "usr/lib/sysusers.d/llmgwd.conf",
        "usr/lib/tmpfiles.d/llmgwd.conf",
        "usr/share/dbus-1/system-services/org.llmgw.Node1.service",
        "usr/share/dbus-1/system.d/org.llmgw.Node1.conf",
        *(f"usr/share/dbus-1/interfaces/{path.name}" for path in (TREE / "dbus").glob("*.xml")),
    }
    sources = {path.relative_to(TREE) for path in (TREE / "llmgwd").rglob("*.py")}
    assert {Path(path).relative_to(packages) for path in modules if path.endswith(".py")} == sources


def test_nothing_laid_down_is_writable_by_others_or_only_readable_by_root(stage: Path) -> None:
    modes = {path.relative_to(stage): path.stat().st_mode & 0o777 for path in stage.rglob("*")}
    programs = {path for path in modes if path.parent == Path("usr/bin")}
    directories = {path for path in modes if (stage / path).is_dir()}
    assert modes == {path: 0o755 if path in programs | directories else 0o644 for path in modes}


def test_the_version_and_what_is_required_are_known_to_python(stage: Path) -> None:
    asked = "import json; from importlib.metadata import distribution as d; x = d('llmgwd'); "
    found = json.loads(ask(stage, f"{asked}print(json.dumps([x.version, x.requires]))"))
    extras = PROJECT["optional-dependencies"].items()
    optional = [f'{need} ; extra == "{extra}"' for extra, needs in extras for need in needs]
    assert found == [PROJECT["version"], PROJECT["dependencies"] + optional]


def test_the_start_scripts_call_the_entry_points(stage: Path) -> None:
    scripts = {path.name: path.read_text() for path in (stage / "usr/bin").iterdir()}
    assert scripts == {
        "llmgwd": "#!/usr/bin/python3 -sP\nfrom llmgwd.daemon import main\n\nraise SystemExit(main())\n",
        "llmgwctl": "#!/usr/bin/python3 -sP\nfrom llmgwd.cli.main import main\n\nraise SystemExit(main())\n",
    }


def test_another_prefix_is_found_by_units_and_scripts(tmp_path: Path) -> None:
    make_install(tmp_path, "PREFIX=/opt/llmgwd", "PYCOMPILE=no")
    unit = (tmp_path / "opt/llmgwd/lib/systemd/system/llmgwd.service").read_text()
    script = (tmp_path / "opt/llmgwd/bin/llmgwd").read_text()
    assert "\nExecStart=/opt/llmgwd/bin/llmgwd\n" in unit
    (directory,) = re.findall(r"^sys\.path\.insert\(1, '(.*)'\)$", script, re.MULTILINE)
    assert (tmp_path / directory.lstrip("/") / "llmgwd/__init__.py").exists()
    assert list(tmp_path.rglob("*.pyc")) == []


def test_an_older_version_is_replaced(tmp_path: Path) -> None:
    make_install(tmp_path, "PREFIX=/usr", "PYCOMPILE=no")
    directory = modules_directory(tmp_path)
    (directory / "llmgwd-0.0.1.dist-info").mkdir()
    (directory / "llmgwd/gone.py").touch()
    make_install(tmp_path, "PREFIX=/usr", "PYCOMPILE=no")
    assert {path.name for path in directory.iterdir()} == {"llmgwd", f"llmgwd-{PROJECT['version']}.dist-info"}
    assert not (directory / "llmgwd/gone.py").exists()


def test_what_the_readme_removes_is_all_that_was_laid_down_but_the_configuration(tmp_path: Path) -> None:
    make_install(tmp_path, "PREFIX=/usr")
    (removal,) = re.findall(r"^sudo (rm -r (?:.*\\\n)*.*)", (TREE / "README.md").read_text(), re.MULTILINE)
    removal = removal.replace(" /usr/", f" {tmp_path}/usr/")
    subprocess.run(["bash", "-euc", removal], capture_output=True, timeout=30, check=True)
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert left == {"etc/llmgwd/llmgwd.toml"}


def test_an_edited_configuration_stays_and_the_new_one_is_laid_beside_it(tmp_path: Path) -> None:
    make_install(tmp_path, "PYCOMPILE=no")
    there, new = tmp_path / "etc/llmgwd/llmgwd.toml", tmp_path / "etc/llmgwd/llmgwd.toml.new"
    shipped, edited = there.read_text(), "[agent]\nlog_lines = 100\n"
    there.write_text(edited)
    there.chmod(0o640)
    said = make_install(tmp_path, "PYCOMPILE=no")
    assert (there.read_text(), there.stat().st_mode & 0o777) == (edited, 0o640)
    assert (new.read_text(), new.stat().st_mode & 0o777) == (shipped, 0o644)
    assert said == f"install: {there} is not the one that ships and stays as it is; that one is {new}\n"
    there.write_text(shipped)
    assert (make_install(tmp_path, "PYCOMPILE=no"), new.exists()) == ("", False)


def test_the_configuration_that_ships_changes_nothing() -> None:
    shipped = (TREE / "packaging/llmgwd.toml").read_text()
    assert parse_config([("llmgwd.toml", shipped)], engines=ENGINES) == parse_config([], engines=ENGINES)


def test_the_configuration_that_ships_shows_every_key_and_the_defaults_of_the_agent() -> None:
    shipped = (TREE / "packaging/llmgwd.toml").read_text()
    shown = re.sub(r"^#(?=[\w[])", "", shipped, flags=re.MULTILINE)
    tables = tomllib.loads(shown)
    assert parse_config([("llmgwd.toml", shown)], engines=ENGINES).agent == AgentConfig()
    assert set(tables["agent"]) == set(AgentConfig.__dataclass_fields__)
    assert set(tables["engines"]["vllm"]) == set(EngineConfig.__dataclass_fields__)
