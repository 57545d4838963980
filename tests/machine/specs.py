"""Specs of the fake engines, as keys for `Node.start`."""

from tests.machine.machine import TREE_INSIDE


def fake(name: str, *flags: str) -> list[str]:
    """The command line of a program in tests/fakes, as a machine knows it."""
    return ["/usr/bin/python3", "-IS", f"{TREE_INSIDE}/tests/fakes/{name}.py", *flags]


def engine(*flags: str) -> list[str]:
    return fake("engine", *flags)


def serving(port: int, *flags: str, model: str = "tiny") -> dict[str, object]:
    """The keys of a spec for a fake engine that serves."""
    return {
        "command": engine("--port", str(port), "--model", model, *flags),
        "port": port,
        "health_path": "/health",
        "served_model_name": model,
    }


def waiting(port: int) -> dict[str, object]:
    """The keys of a spec for rank 1 of two, which waits for the leader on this very node."""
    return {
        "nodes": 2,
        "rank": 1,
        "leader_address": "127.0.0.1",
        "leader_port": port,
        "waits_for_leader": True,
    }
