"""The command lines of all golden plans, by engine and case, and a program that reads some of them."""

import json
import os
import subprocess
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from llmgwd.model.spec import ShardSpec
from tests.engines.golden import GOLDEN
from tests.engines.specs import spec


def command_lines(verb: str) -> dict[str, tuple[str, ...]]:
    """Those whose first word after the program is `verb`, of every engine."""
    return {
        f"{engine}: {name}": process.argv
        for engine, cases in GOLDEN.items()
        for name, case in cases.items()
        for process in case.plan.processes
        if process.argv[1:2] == (verb,)
    }


def spec_of(name: str) -> ShardSpec:
    engine, _, case = name.partition(": ")
    return spec(engine, **GOLDEN[engine][case].values)


def read_by(
    python: Path,
    program: str,
    *args: str,
    lines: Collection[Sequence[str]],
    environment: Mapping[str, str],
) -> Any:
    """What a program of this folder, run by `python`, says of `lines`: the last line of its output."""
    ran = subprocess.run(
        [python, "-P", Path(__file__).with_name(program), *args],
        input=json.dumps(list(lines)),
        env={"PATH": os.environ["PATH"], **environment},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(ran.stdout.splitlines()[-1])
