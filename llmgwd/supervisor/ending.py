"""From what a gate left behind to exit code, signal and a sentence."""

import signal

from llmgwd.supervisor.record import Changes

_KILLED = 128 + signal.SIGKILL


def read(status: str, *, lost_gate: bool) -> tuple[Changes, str]:
    """What the exit file says of an engine: the fields of the record, and `exited 37` or the like.

    An empty status means that the gate was killed; with `lost_gate` it alone: nothing is known of the engine.
    """
    if status == "closed":
        return Changes(exit_code=-1), "never ran"
    if not status and lost_gate:
        return Changes(exit_code=-1), "lost its gate"
    if not status:
        return Changes(exit_code=_KILLED, exit_signal="SIGKILL", killed=True), "was killed by SIGKILL"
    code = int(status)
    name = _signal_name(code)
    return Changes(exit_code=code, exit_signal=name), f"was killed by {name}" if name else f"exited {code}"


def cause(reason: str, exit_code: int, exit_signal: str, stopped: bool) -> str:
    """A few words for statistics, the keys of `Ends`."""
    if stopped:
        return "stopped"
    if reason == "host rebooted":
        return "rebooted"
    if exit_signal:
        return exit_signal
    return f"exited-{exit_code}" if exit_code >= 0 else "failed"


def _signal_name(code: int) -> str:
    """`SIGSEGV` for 139, as a shell reports a death by signal; empty for a plain exit."""
    try:
        return signal.Signals(code - 128).name if code > 128 else ""
    except ValueError:
        return ""
