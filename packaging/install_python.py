"""Lays the Python package down as pip would, offline and without it: modules, dist-info, start scripts."""

from __future__ import annotations

import argparse
import compileall
import os
import shutil
import site
import sys
import tomllib
from pathlib import Path
from typing import Any

TREE = Path(__file__).resolve().parents[1]

# -s: not what some user has installed for themselves; -P: not what lies beside the script.
SCRIPT = """\
#!{python} -sP
{path}from {module} import {function}

raise SystemExit({function}())
"""


def modules_directory(prefix: str) -> str:
    """Where this interpreter looks for modules under `prefix`; site-packages where it looks nowhere there."""
    # On Debian /usr/lib/python3/dist-packages comes first; Fedora has lib64, for compiled code, before lib.
    for directory in site.getsitepackages():
        if directory.startswith(f"{prefix}/lib/"):
            return directory
    return f"{prefix}/lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"


def metadata(project: dict[str, Any]) -> str:
    """The METADATA of a dist-info (packaging.python.org, core metadata), which importlib.metadata reads."""
    lines = [
        "Metadata-Version: 2.1",
        f"Name: {project['name']}",
        f"Version: {project['version']}",
        f"Summary: {project['description']}",
        f"License: {project['license']['text']}",
        f"Requires-Python: {project['requires-python']}",
        *(f"Requires-Dist: {requirement}" for requirement in project["dependencies"]),
    ]
    for extra, requirements in project["optional-dependencies"].items():
        lines.append(f"Provides-Extra: {extra}")
        lines += [f'Requires-Dist: {requirement} ; extra == "{extra}"' for requirement in requirements]
    return "\n".join(lines) + "\n"


def write(path: Path, text: str, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)


def install(destdir: str, prefix: str, python: str, *, compiled: bool) -> None:
    project = tomllib.loads((TREE / "pyproject.toml").read_text())["project"]
    name, version, scripts = project["name"], project["version"], project["scripts"]
    directory = modules_directory(prefix)
    target = Path(f"{destdir}{directory}")

    # What an older version left would be imported, or be taken for the version.
    for old in (target / name, *target.glob(f"{name}-*.dist-info")):
        shutil.rmtree(old, ignore_errors=True)
    shutil.copytree(TREE / name, target / name, ignore=shutil.ignore_patterns("__pycache__"))
    for path in (target / name, *(target / name).rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)

    info = target / f"{name}-{version}.dist-info"
    write(info / "METADATA", metadata(project))
    write(info / "INSTALLER", "make\n")
    entries = "".join(f"{script} = {entry}\n" for script, entry in scripts.items())
    write(info / "entry_points.txt", f"[console_scripts]\n{entries}")
    found = directory in site.getsitepackages()
    path = "" if found else f"import sys\n\nsys.path.insert(1, {directory!r})\n"
    for script, entry in scripts.items():
        module, _, function = entry.partition(":")
        text = SCRIPT.format(python=python, path=path, module=module, function=function)
        write(Path(f"{destdir}{prefix}/bin/{script}"), text, 0o755)
    if compiled:
        compileall.compile_dir(target / name, stripdir=destdir, prependdir="/", quiet=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--destdir", default="", help="laid down below this directory, for a package")
    parser.add_argument("--prefix", default="/usr")
    parser.add_argument("--python", default="/usr/bin/python3", help="the interpreter of the start scripts")
    parser.add_argument("--no-compile", action="store_true", help="leave byte code to the packager")
    asked = parser.parse_args()
    os.umask(0o022)
    install(asked.destdir, asked.prefix, asked.python, compiled=not asked.no_compile)


main()
