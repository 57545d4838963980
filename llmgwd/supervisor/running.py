"""One process of a shard as this daemon holds it: started by us, or found running after a restart."""

import asyncio
import contextlib
import signal
from pathlib import Path

from llmgwd.host import process
from llmgwd.host.gate import Gate, read_status
from llmgwd.host.process import Held, NoSuchProcess
from llmgwd.supervisor.record import Pid

_STEP_S = 0.0005
_EXEC_S = 2.0


class Running:
    """The gate and what is behind it. An adopted gate is open, or has ended: the daemon's death shut it."""

    def __init__(
        self, name: str, status: Path, *, gate: Gate | None = None, held: Held | None = None
    ) -> None:
        self.name = name
        self._status = status
        self._gate = gate
        self._held = gate.process if gate else held
        self.opened = gate is None
        self.reported = asyncio.Event()  # its end, to the keeper

    @classmethod
    def adopt(cls, name: str, status: Path, pid: Pid, control_group: str) -> "Running":
        """The gate of before, if it lives: same number, same start, same cgroup; else one that has ended."""
        try:
            held = Held.open(pid.pid, started=pid.start_time)
        except NoSuchProcess:
            return cls(name, status)
        with contextlib.suppress(NoSuchProcess):
            if process.control_group(pid.pid) == control_group:
                return cls(name, status, held=held)
        held.release()
        return cls(name, status)

    @property
    def identity(self) -> Pid | None:
        """`None` for one that had ended before we came."""
        return Pid(self._held.pid, self._held.start_time) if self._held is not None else None

    @property
    def is_alive(self) -> bool:
        return self._held is not None and not self._held.ended.done()

    @property
    def status(self) -> str:
        # A stop can kill a gate that was never opened before its shell is up to saying so.
        return read_status(self._status) if self.opened else "closed"

    def open(self) -> None:
        if self._gate is not None:
            self.opened = True
            self._gate.open()

    def shut(self) -> None:
        if self._gate is not None and not self.opened:
            self._gate.shut()

    async def wait_ended(self) -> None:
        """Returns when the gate has ended, and with it what it ran."""
        if self._held is not None:
            await asyncio.shield(self._held.ended)
        if self._gate is not None:
            self._gate.reap()

    async def program_pid(self) -> int:
        """The pid behind the open gate once it is the program's own; 0 where it has ended already.

        Before that a SIGTERM would be swallowed by the shell that is about to become the program. The first
        thing that is executed in its place is setsid(1), which shows.
        """
        if self._held is None:
            return 0
        deadline = asyncio.get_running_loop().time() + _EXEC_S
        while self.is_alive and self.opened:
            child = process.first_child(self._held.pid)
            if child and process.leads_session(child):
                return child
            if asyncio.get_running_loop().time() > deadline:
                return child
            await asyncio.sleep(_STEP_S)
        return 0

    async def terminate(self) -> None:
        """SIGTERM to the program itself, by pidfd."""
        pid = await self.program_pid()
        if not pid or self._held is None:
            return
        with contextlib.suppress(NoSuchProcess):
            program = Held.open(pid)
            # While the gate has this child it has not reaped it, so that the number is still the program's.
            if process.first_child(self._held.pid) == pid:
                program.send(signal.SIGTERM)
            program.release()

    def release(self) -> None:
        if self._gate is not None:
            self._gate.release()
        elif self._held is not None:
            self._held.release()
