"""Virtual environments that are moved after they were made."""

import subprocess
from pathlib import Path

from tests.real import virtual_environment


def test_a_program_runs_wherever_its_environment_was_moved(tmp_path: Path) -> None:
    python = virtual_environment.make(tmp_path / "made")
    (packages,) = (tmp_path / "made").glob("lib/python3*/site-packages")
    (packages / "example.py").write_text("import sys\nprint(sys.prefix, *sys.argv[1:])\n")
    virtual_environment.write_program(tmp_path / "made", "example", "example")
    moved = (tmp_path / "made").rename(tmp_path / "moved")
    said = subprocess.run(
        [moved / "bin/example", "a b"], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert (python, said.stdout) == (tmp_path / "made/bin/python3", f"{moved} a b\n")
