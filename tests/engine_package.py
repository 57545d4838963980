"""The package of docs/hacking.md that brings an engine, as it would be installed."""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

PAGE = Path(__file__).resolve().parents[1] / "docs/hacking.md"
MODULE = "llmgwd_textgen"


def files() -> dict[str, str]:
    """What pip would lay down for it: path below the modules' directory, and text."""
    section = PAGE.read_text(encoding="utf-8").partition("## An engine of your own")[2].partition("\n## ")[0]
    (code,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    (project,) = re.findall(r"```toml\n(.*?)```", section, re.DOTALL)
    return {f"{MODULE}.py": code} | installed(MODULE, tomllib.loads(project)["project"]["entry-points"])


def installed(name: str, groups: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """The dist-info of a package with these entry points (packaging.python.org, entry points)."""
    lines = [
        line
        for group, points in groups.items()
        for line in (f"[{group}]", *(f"{point} = {target}" for point, target in points.items()))
    ]
    return {
        f"{name}-1.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n",
        f"{name}-1.dist-info/entry_points.txt": "\n".join(lines) + "\n",
    }
