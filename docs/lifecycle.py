"""Writes docs/lifecycle.md from the tables of llmgwd/model/lifecycle.py: `python -m docs.lifecycle`."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from docs.tables import table
from llmgwd.model.lifecycle import (
    ACTIVITIES,
    IGNORED,
    TERMINAL,
    TRANSITIONS,
    Activity,
    Fact,
    Phase,
    State,
    is_terminal,
    public,
)

PAGE = Path(__file__).with_suffix(".md")

INTRODUCTION = """\
<!-- Made by `python -m docs.lifecycle` from llmgwd/model/lifecycle.py: change that, not this. -->

# The life of a shard

A shard is in one *phase*. A *fact* (something that has happened, in the world or because somebody asked)
moves it to another one, by the table of `llmgwd/model/lifecycle.py`; this page is made of that table.
Callers see fewer words, the *states*. While a shard is in a phase its *activities* run: they start when it
arrives and are cancelled when it leaves. Only the shard's keeper (`llmgwd/supervisor/keeper.py`) moves it,
one fact at a time.
"""

STATES: Mapping[State, str] = {
    State.PENDING: "accepted and recorded, nothing runs yet",
    State.STARTING: "its processes exist in their scope, held at their gates",
    State.LOADING: "the engine runs and does not serve yet",
    State.READY: "the engine serves its model, or has stayed alive long enough where it serves no HTTP",
    State.DRAINING: "takes no new work, or is being stopped",
    State.STOPPED: "terminal: it was to end, and its scope is empty",
    State.FAILED: "terminal: it ended by itself or could not be started, and its scope is empty",
}

PHASES: Mapping[Phase, str] = {
    Phase.PENDING: "waits for its turn",
    Phase.GATED: "its gates are made and put into their scope",
    Phase.WAITING: "its gates are opened one by one, those that wait for other ranks after their ports",
    Phase.LOADING: "the engine runs; it is asked whether it serves",
    Phase.READY: "the engine serves; it is asked whether it still does",
    Phase.DRAINED_PENDING: "as pending, with no way to ready",
    Phase.DRAINED_GATED: "as gated, with no way to ready",
    Phase.DRAINED_WAITING: "as waiting, with no way to ready",
    Phase.DRAINED_LOADING: "as loading, with no way to ready",
    Phase.DRAINED: "the engine serves what it has, and is to get no new work",
    Phase.FINISHING: "it will be stopped when its last request is done, or its time for that is over",
    Phase.STOPPING: "its scope is being emptied because it is to end",
    Phase.ABORTING: "its scope is being emptied because it cannot go on",
    Phase.STOPPED: "the end of stopping",
    Phase.FAILED: "the end of aborting",
}

FACTS: Mapping[Fact, str] = {
    Fact.TURN_CAME: "its keeper has begun",
    Fact.SCOPE_STARTED: "every process is in the scope, at its shut gate",
    Fact.ENGINE_STARTED: "the engine's gate was opened",
    Fact.ENGINE_ANSWERED: "the engine serves its model, or has stayed alive long enough",
    Fact.DRAIN_ASKED: "a caller wants it to take no new work",
    Fact.DRAINING_STOP_ASKED: "a caller wants it to end, and gives it time for its requests",
    Fact.STOP_ASKED: "a caller wants it to end",
    Fact.SYSTEMD_STOPS: "systemd stops its scope, because somebody else has asked it to",
    Fact.REQUESTS_DONE: "nobody is connected any more, or the time for that is over",
    Fact.START_REFUSED: "a process or the scope could not be made, or the record could not be written",
    Fact.TIME_UP: "a port that was waited for was not open in time, or the engine did not serve in time",
    Fact.SIDECAR_ENDED: "a process beside the engine has ended",
    Fact.ENGINE_ENDED: "the engine has ended",
    Fact.SCOPE_EMPTY: "no process of the shard is left",
}

DOES: Mapping[Activity, str] = {
    Activity.START_SCOPE: "makes the gates and their scope",
    Activity.OPEN_GATES: "waits for other ranks where the plan says so, and opens the gates in order",
    Activity.AWAIT_ENGINE: "asks the engine until it serves its model, within the time limit",
    Activity.WATCH_HEALTH: "asks the engine whether it still answers; it only reports",
    Activity.AWAIT_REQUESTS: "counts the connections to the engine's port until there is none",
    Activity.EMPTY_SCOPE: "has everything in the scope asked to end, then killed",
}

TABLES: Mapping[str, Sequence[Phase]] = {
    "On its way and serving": (Phase.PENDING, Phase.GATED, Phase.WAITING, Phase.LOADING, Phase.READY),
    "Drained": (
        Phase.DRAINED_PENDING,
        Phase.DRAINED_GATED,
        Phase.DRAINED_WAITING,
        Phase.DRAINED_LOADING,
        Phase.DRAINED,
        Phase.FINISHING,
    ),
    "Ending and ended": (Phase.STOPPING, Phase.ABORTING, Phase.STOPPED, Phase.FAILED),
}


def page() -> str:
    """The whole page. Raises KeyError where a state, phase, fact or activity has no sentence here."""
    return "\n".join([INTRODUCTION, _states(), _phases(), _facts(), _transitions(), _activities()])


def _states() -> str:
    rows = ((f"`{state}`", STATES[state]) for state in State)
    text = "*Live* is every state that is not terminal. Nothing leads back from `draining` to `ready`.\n"
    return f"## States\n\n{table(('state', 'meaning'), rows)}\n{text}\n{_diagram_of_states()}"


def _phases() -> str:
    rows = ((f"`{phase}`", _word(phase), PHASES[phase]) for phase in Phase)
    return f"## Phases\n\n{table(('phase', 'state', 'meaning'), rows)}\n{_diagram_of_phases()}"


def _facts() -> str:
    rows = ((f"`{fact}`", FACTS[fact]) for fact in Fact)
    return f"## Facts\n\n{table(('fact', 'meaning'), rows)}"


def _transitions() -> str:
    text = """\
Each cell is the phase that follows. `·`: the fact is ignored, being late news or an order for what is done
already. An empty cell: the fact cannot be true there; it is logged as a fault of llmgwd and changes nothing.
"""
    tables = (f"### {title}\n\n{_matrix(phases)}" for title, phases in TABLES.items())
    return "\n".join([f"## What each fact does\n\n{text}", *tables])


def _activities() -> str:
    rows = ((f"`{one}`", ", ".join(_where(one)), DOES[one]) for one in Activity)
    text = "An activity that the old and the new phase both have goes on undisturbed.\n"
    return f"## Activities\n\n{table(('activity', 'in', 'what it does'), rows)}\n{text}"


def _word(phase: Phase) -> str:
    words = {public(phase, before) for before in State}
    return f"`{words.pop()}`" if len(words) == 1 else "the one before"


def _where(activity: Activity) -> list[str]:
    return [f"`{phase}`" for phase in Phase if activity in ACTIVITIES.get(phase, frozenset())]


def _matrix(phases: Sequence[Phase]) -> str:
    rows = ((f"`{fact}`", *(_cell(phase, fact) for phase in phases)) for fact in Fact)
    return table(("", *(f"`{phase}`" for phase in phases)), rows)


def _cell(phase: Phase, fact: Fact) -> str:
    after = TRANSITIONS[phase].get(fact)
    if after is not None:
        return f"`{after}`"
    return "·" if fact in IGNORED.get(phase, frozenset()) else ""


def _diagram_of_states() -> str:
    # A shard that is being aborted keeps its word until it has failed: `failed` stands for both here.
    return _diagram({phase: public(phase, State.FAILED) for phase in Phase}, State.PENDING, TERMINAL)


def _diagram_of_phases() -> str:
    terminal = [phase for phase in Phase if is_terminal(phase)]
    return _diagram({phase: phase for phase in Phase}, Phase.PENDING, terminal)


def _diagram(names: Mapping[Phase, str], first: str, last: Collection[str]) -> str:
    """A mermaid diagram (mermaid.js.org, state diagrams) of the transitions between different names."""
    arrows: dict[tuple[str, str], list[Fact]] = {}
    for phase, moves in TRANSITIONS.items():
        for fact, after in moves.items():
            facts = arrows.setdefault((names[phase], names[after]), [])
            facts += [] if fact in facts else [fact]
    lines = [
        "stateDiagram-v2",
        *(f'    state "{name}" as {_id(name)}' for name in dict.fromkeys(names.values())),
        f"    [*] --> {_id(first)}",
        *(
            f"    {_id(old)} --> {_id(new)}: {', '.join(facts)}"
            for (old, new), facts in arrows.items()
            if old != new
        ),
        *(f"    {_id(name)} --> [*]" for name in dict.fromkeys(names.values()) if name in last),
    ]
    return "```mermaid\n" + "\n".join(lines) + "\n```\n"


def _id(name: str) -> str:
    return name.replace("-", "_")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
