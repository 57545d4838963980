"""The story in a throw-away machine, for root: nothing of it stays."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Final

from tests.demo.place import SHAPE, Place, Result
from tests.machine import llama
from tests.machine.machine import ENVIRONMENT, TREE_INSIDE, Machine
from tests.real.llama import llama_server

CONFIG: Final = "/etc/llmgwd/llmgwd.toml.d/demo.toml"


class InMachine:
    """A place, tests/demo/place.py."""

    opening = "A throw-away machine has booted: this system's own systemd, and llmgwd in it."
    user_flag: tuple[str, ...] = ()
    engines_journal = "--namespace=llmgw"
    daemon_unit = "llmgwd.service"
    engine_user = "llmgw"
    model = "/var/lib/llmgw/random.gguf"
    port = 8080
    tree = TREE_INSIDE

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    def run(self, command: Sequence[str], *, check: bool = True) -> Result:
        return self.machine.run(command, check=check, timeout_s=60)

    def popen(self, command: Sequence[str]) -> AbstractContextManager[subprocess.Popen[str]]:
        return self.machine.popen(command)

    def journal(self) -> str:
        return self.machine.report()

    def shell(self) -> None:
        enter = ["nsenter", f"--target={self.machine.leader}", "--all", "--root", "--wd"]
        how = "--pty" if sys.stdin.isatty() else "--pipe"
        run = ["systemd-run", how, "--quiet", "--wait", "--collect", "--working-directory=/root"]
        term = os.environ.get("TERM", "dumb")
        subprocess.run(
            [*enter, *run, f"--setenv=TERM={term}", "--setenv=HOME=/root", "/bin/bash"],
            env=ENVIRONMENT | {"TERM": term},
            check=False,
        )


@contextmanager
def in_machine(say: Callable[[str], None]) -> Iterator[Place]:
    """Raises MachineError, NoLlamaServer."""
    # What the ordinary PATH leads to is in the machine as well, for any user.
    program = llama_server(search=ENVIRONMENT["PATH"], say=say)
    config = f'[engines.llama-cpp]\nexecutable = "{llama.path_inside(program)}"\n'
    with Machine("node", enable=["llmgwd.service"], files={CONFIG: config}) as machine:
        llama.lay(machine, program)
        place = InMachine(machine)
        llama.write_model(machine, place.model, SHAPE)
        yield place
