"""Every state of a shard, every fact that moves it, and what runs while it is there: three tables.

A fact that a state neither moves on nor ignores is a fault of ours: `after` raises and nothing changes.
"""

from collections.abc import Mapping
from enum import StrEnum


class State(StrEnum):
    """The public words (on the bus, in the command line)."""

    PENDING = "pending"
    STARTING = "starting"
    LOADING = "loading"
    READY = "ready"
    DRAINING = "draining"
    STOPPED = "stopped"
    FAILED = "failed"


TERMINAL = frozenset({State.STOPPED, State.FAILED})


class Phase(StrEnum):
    """Where a shard is, as its keeper tells it. `DRAINED_*` is the same place with no way to `ready`."""

    PENDING = "pending"
    GATED = "gated"
    WAITING = "waiting"
    LOADING = "loading"
    READY = "ready"
    DRAINED_PENDING = "drained-pending"
    DRAINED_GATED = "drained-gated"
    DRAINED_WAITING = "drained-waiting"
    DRAINED_LOADING = "drained-loading"
    DRAINED = "drained"
    FINISHING = "finishing"
    STOPPING = "stopping"
    ABORTING = "aborting"
    STOPPED = "stopped"
    FAILED = "failed"


SERVING = frozenset({Phase.READY, Phase.DRAINED})
ENDING = frozenset({Phase.STOPPING, Phase.ABORTING})


class Fact(StrEnum):
    """What has happened, as the world or a caller tells it."""

    TURN_CAME = "turn-came"
    SCOPE_STARTED = "scope-started"
    ENGINE_STARTED = "engine-started"
    ENGINE_ANSWERED = "engine-answered"
    DRAIN_ASKED = "drain-asked"
    DRAINING_STOP_ASKED = "draining-stop-asked"
    STOP_ASKED = "stop-asked"
    SYSTEMD_STOPS = "systemd-stops"
    REQUESTS_DONE = "requests-done"
    START_REFUSED = "start-refused"
    TIME_UP = "time-up"
    SIDECAR_ENDED = "sidecar-ended"
    ENGINE_ENDED = "engine-ended"
    SCOPE_EMPTY = "scope-empty"


class Activity(StrEnum):
    """What the keeper has running while a shard is in a phase; entering starts it, leaving cancels it."""

    START_SCOPE = "start-scope"
    OPEN_GATES = "open-gates"
    AWAIT_ENGINE = "await-engine"
    WATCH_HEALTH = "watch-health"
    AWAIT_REQUESTS = "await-requests"
    EMPTY_SCOPE = "empty-scope"


_P = Phase
_F = Fact

_STOPS = (_F.STOP_ASKED, _F.DRAINING_STOP_ASKED, _F.SYSTEMD_STOPS)
# How a shard that has begun, and was not asked to drain, can come to its end.
_ENDS = dict.fromkeys(_STOPS, _P.STOPPING) | {
    _F.ENGINE_ENDED: _P.ABORTING,
    _F.SIDECAR_ENDED: _P.ABORTING,
    _F.START_REFUSED: _P.ABORTING,
    _F.TIME_UP: _P.ABORTING,
}
# After a drain every end is a stop: nothing that was promised is lost by it.
_DRAINED_ENDS = dict.fromkeys(_ENDS, _P.STOPPING)

TRANSITIONS: Mapping[Phase, Mapping[Fact, Phase]] = {
    _P.PENDING: dict.fromkeys(_STOPS, _P.STOPPING)
    | {_F.TURN_CAME: _P.GATED, _F.DRAIN_ASKED: _P.DRAINED_PENDING},
    _P.GATED: _ENDS | {_F.SCOPE_STARTED: _P.WAITING, _F.DRAIN_ASKED: _P.DRAINED_GATED},
    _P.WAITING: _ENDS | {_F.ENGINE_STARTED: _P.LOADING, _F.DRAIN_ASKED: _P.DRAINED_WAITING},
    _P.LOADING: _ENDS | {_F.ENGINE_ANSWERED: _P.READY, _F.DRAIN_ASKED: _P.DRAINED_LOADING},
    _P.READY: {
        _F.STOP_ASKED: _P.STOPPING,
        _F.DRAINING_STOP_ASKED: _P.FINISHING,
        _F.SYSTEMD_STOPS: _P.STOPPING,
        _F.ENGINE_ENDED: _P.ABORTING,
        _F.SIDECAR_ENDED: _P.READY,
        _F.DRAIN_ASKED: _P.DRAINED,
    },
    _P.DRAINED_PENDING: dict.fromkeys(_STOPS, _P.STOPPING) | {_F.TURN_CAME: _P.DRAINED_GATED},
    _P.DRAINED_GATED: _DRAINED_ENDS | {_F.SCOPE_STARTED: _P.DRAINED_WAITING},
    _P.DRAINED_WAITING: _DRAINED_ENDS | {_F.ENGINE_STARTED: _P.DRAINED_LOADING},
    _P.DRAINED_LOADING: _DRAINED_ENDS | {_F.ENGINE_ANSWERED: _P.DRAINED},
    _P.DRAINED: {
        _F.STOP_ASKED: _P.STOPPING,
        _F.DRAINING_STOP_ASKED: _P.FINISHING,
        _F.SYSTEMD_STOPS: _P.STOPPING,
        _F.ENGINE_ENDED: _P.STOPPING,
        _F.SIDECAR_ENDED: _P.DRAINED,
    },
    _P.FINISHING: {
        _F.REQUESTS_DONE: _P.STOPPING,
        _F.STOP_ASKED: _P.STOPPING,
        _F.SYSTEMD_STOPS: _P.STOPPING,
        _F.ENGINE_ENDED: _P.STOPPING,
    },
    _P.STOPPING: {_F.SCOPE_EMPTY: _P.STOPPED},
    _P.ABORTING: {_F.SCOPE_EMPTY: _P.FAILED},
    _P.STOPPED: {},
    _P.FAILED: {},
}

_ASKS = frozenset({_F.STOP_ASKED, _F.DRAINING_STOP_ASKED, _F.SYSTEMD_STOPS, _F.DRAIN_ASKED})
# News that may still be under way when the shard has moved on, and orders that say what is done already.
_LATE = _ASKS | {
    _F.TURN_CAME,
    _F.SCOPE_STARTED,
    _F.ENGINE_STARTED,
    _F.ENGINE_ANSWERED,
    _F.REQUESTS_DONE,
    _F.START_REFUSED,
    _F.TIME_UP,
    _F.SIDECAR_ENDED,
    _F.ENGINE_ENDED,
}
_DRAIN_AGAIN = frozenset({_F.DRAIN_ASKED})
IGNORED: Mapping[Phase, frozenset[Fact]] = {
    _P.READY: frozenset({_F.TIME_UP}),
    _P.DRAINED_PENDING: _DRAIN_AGAIN,
    _P.DRAINED_GATED: _DRAIN_AGAIN,
    _P.DRAINED_WAITING: _DRAIN_AGAIN,
    _P.DRAINED_LOADING: _DRAIN_AGAIN,
    _P.DRAINED: _DRAIN_AGAIN | {_F.TIME_UP},
    _P.FINISHING: _DRAIN_AGAIN | {_F.DRAINING_STOP_ASKED, _F.SIDECAR_ENDED, _F.ENGINE_ANSWERED, _F.TIME_UP},
    _P.STOPPING: _LATE,
    _P.ABORTING: _LATE,
    _P.STOPPED: _LATE | {_F.SCOPE_EMPTY},
    _P.FAILED: _LATE | {_F.SCOPE_EMPTY},
}

ACTIVITIES: Mapping[Phase, frozenset[Activity]] = {
    _P.GATED: frozenset({Activity.START_SCOPE}),
    _P.WAITING: frozenset({Activity.OPEN_GATES}),
    _P.LOADING: frozenset({Activity.AWAIT_ENGINE}),
    _P.READY: frozenset({Activity.WATCH_HEALTH}),
    _P.DRAINED_GATED: frozenset({Activity.START_SCOPE}),
    _P.DRAINED_WAITING: frozenset({Activity.OPEN_GATES}),
    _P.DRAINED_LOADING: frozenset({Activity.AWAIT_ENGINE}),
    _P.DRAINED: frozenset({Activity.WATCH_HEALTH}),
    _P.FINISHING: frozenset({Activity.AWAIT_REQUESTS}),
    _P.STOPPING: frozenset({Activity.EMPTY_SCOPE}),
    _P.ABORTING: frozenset({Activity.EMPTY_SCOPE}),
}

_PUBLIC: Mapping[Phase, State] = {
    _P.PENDING: State.PENDING,
    _P.GATED: State.STARTING,
    _P.WAITING: State.STARTING,
    _P.LOADING: State.LOADING,
    _P.READY: State.READY,
    _P.DRAINED_PENDING: State.DRAINING,
    _P.DRAINED_GATED: State.DRAINING,
    _P.DRAINED_WAITING: State.DRAINING,
    _P.DRAINED_LOADING: State.DRAINING,
    _P.DRAINED: State.DRAINING,
    _P.FINISHING: State.DRAINING,
    _P.STOPPING: State.DRAINING,
    _P.STOPPED: State.STOPPED,
    _P.FAILED: State.FAILED,
}


class IllegalFact(Exception):  # noqa: N818
    """A fact that cannot be true in this phase; the phase is unchanged."""


def after(phase: Phase, fact: Fact) -> Phase | None:
    """The phase that follows; `None` where the fact changes nothing.

    Raises IllegalFact where the tables say nothing about it.
    """
    moved = TRANSITIONS[phase].get(fact)
    if moved is None and fact not in IGNORED.get(phase, frozenset()):
        raise IllegalFact(f"{fact} cannot happen in {phase}")
    return moved


def public(phase: Phase, before: State) -> State:
    """The word for others. A shard that has to end keeps its word until its scope is empty."""
    return _PUBLIC.get(phase, before)


def is_terminal(phase: Phase) -> bool:
    return phase in {Phase.STOPPED, Phase.FAILED}
