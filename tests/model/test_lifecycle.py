"""The tables of a shard's life: what they promise, for every phase and every fact."""

import itertools

import pytest

from llmgwd.model.lifecycle import (
    ACTIVITIES,
    IGNORED,
    TERMINAL,
    TRANSITIONS,
    Activity,
    Fact,
    IllegalFact,
    Phase,
    State,
    after,
    is_terminal,
    public,
)

ALL = frozenset(State)
PAIRS = list(itertools.product(Phase, Fact))
NOT_TERMINAL = [phase for phase in Phase if not is_terminal(phase)]
NOTHING_RUNS = frozenset({Phase.PENDING, Phase.DRAINED_PENDING})


def words(phase: Phase) -> frozenset[State]:
    """All that others may be told of a shard in this phase, whatever they were told before."""
    return frozenset(public(phase, before) for before in State)


def drained(phase: Phase) -> Phase:
    """The same place, without a way to `ready`."""
    return TRANSITIONS[phase].get(Fact.DRAIN_ASKED, phase)


def follows(phase: Phase, fact: Fact) -> Phase:
    """Where the shard is after the fact, ignored ones included."""
    return after(phase, fact) or phase


def reachable(start: Phase) -> set[Phase]:
    """Every phase that some sequence of facts leads to; the start itself only if one leads back to it."""
    found: set[Phase] = set()
    edge = [start]
    while edge:
        new = {*TRANSITIONS[edge.pop()].values()} - found
        found |= new
        edge += new
    return found


def test_every_phase_has_its_row() -> None:
    assert set(TRANSITIONS) == set(Phase)


def test_every_phase_but_aborting_has_one_public_word() -> None:
    assert {phase for phase in Phase if len(words(phase)) != 1} == {Phase.ABORTING}


def test_aborting_keeps_the_word_of_before() -> None:
    assert {before: public(Phase.ABORTING, before) for before in State} == {word: word for word in State}


def test_every_public_word_is_some_phases() -> None:
    assert frozenset().union(*(words(phase) for phase in Phase if len(words(phase)) == 1)) == ALL


def test_a_terminal_phase_is_one_with_a_terminal_word() -> None:
    assert {phase for phase in Phase if is_terminal(phase)} == {
        phase for phase in Phase if words(phase) <= TERMINAL
    }


@pytest.mark.parametrize("phase", [phase for phase in Phase if is_terminal(phase)])
def test_no_way_leads_out_of_a_terminal_phase(phase: Phase) -> None:
    assert {follows(phase, fact) for fact in Fact} == {phase}


@pytest.mark.parametrize("phase", [phase for phase in Phase if not TRANSITIONS[phase]])
def test_only_a_terminal_phase_has_no_way_out(phase: Phase) -> None:
    assert is_terminal(phase)


def test_no_fact_both_moves_a_phase_and_is_ignored_by_it() -> None:
    both = {(phase, fact) for phase, ignored in IGNORED.items() for fact in ignored & set(TRANSITIONS[phase])}
    assert both == set()


@pytest.mark.parametrize(("phase", "fact"), PAIRS)
def test_a_fact_moves_the_phase_or_is_ignored_or_is_illegal(phase: Phase, fact: Fact) -> None:
    if fact in TRANSITIONS[phase]:
        assert after(phase, fact) is TRANSITIONS[phase][fact]
    elif fact in IGNORED.get(phase, frozenset()):
        assert after(phase, fact) is None
    else:
        with pytest.raises(IllegalFact, match=f"^{fact} cannot happen in {phase}$"):
            after(phase, fact)


@pytest.mark.parametrize(
    "ask", [Fact.DRAIN_ASKED, Fact.DRAINING_STOP_ASKED, Fact.STOP_ASKED, Fact.SYSTEMD_STOPS]
)
@pytest.mark.parametrize("phase", Phase)
def test_what_somebody_asks_for_is_never_illegal(phase: Phase, ask: Fact) -> None:
    assert follows(phase, ask) in Phase


@pytest.mark.parametrize("phase", [phase for phase in NOT_TERMINAL if phase not in NOTHING_RUNS])
def test_the_end_of_the_engine_is_never_illegal(phase: Phase) -> None:
    assert follows(phase, Fact.ENGINE_ENDED) in {Phase.STOPPING, Phase.ABORTING}


def test_every_phase_can_be_reached() -> None:
    assert reachable(Phase.PENDING) == set(Phase) - {Phase.PENDING}


@pytest.mark.parametrize("phase", NOT_TERMINAL)
def test_a_stop_and_an_empty_scope_end_every_shard(phase: Phase) -> None:
    assert is_terminal(follows(follows(phase, Fact.STOP_ASKED), Fact.SCOPE_EMPTY))


def test_a_shard_is_terminal_only_after_its_scope_was_empty() -> None:
    assert {
        (phase, fact)
        for phase, fact in PAIRS
        if not is_terminal(phase) and is_terminal(TRANSITIONS[phase].get(fact, phase))
    } == {(Phase.STOPPING, Fact.SCOPE_EMPTY), (Phase.ABORTING, Fact.SCOPE_EMPTY)}


@pytest.mark.parametrize("phase", [phase for phase in Phase if words(phase) == {State.DRAINING}])
def test_nothing_that_drains_becomes_ready_or_fails(phase: Phase) -> None:
    later = frozenset().union(*map(words, reachable(phase)))
    assert later <= {State.DRAINING, State.STOPPED}


def test_a_shard_fails_only_by_being_aborted() -> None:
    before = [phase for phase in Phase if Phase.FAILED in TRANSITIONS[phase].values()]
    assert before == [Phase.ABORTING]


def test_only_what_does_not_drain_is_aborted() -> None:
    before = {phase for phase in Phase if Phase.ABORTING in TRANSITIONS[phase].values()}
    assert {word for phase in before for word in words(phase)} == {
        State.STARTING,
        State.LOADING,
        State.READY,
    }


def test_public_words_only_go_forward() -> None:
    order = [State.PENDING, State.STARTING, State.LOADING, State.READY, State.DRAINING, State.STOPPED]
    steps = {
        (word, public(later, word))
        for phase, moves in TRANSITIONS.items()
        for later in moves.values()
        for word in words(phase) - TERMINAL
    }
    back = {
        (old, new) for old, new in steps if new is not State.FAILED and order.index(new) < order.index(old)
    }
    assert back == set()


def test_gates_are_opened_only_where_the_scope_is_there_and_the_engine_does_not_run_yet() -> None:
    opening = {phase for phase, running in ACTIVITIES.items() if Activity.OPEN_GATES in running}
    assert opening == {Phase.WAITING, Phase.DRAINED_WAITING}
    into = {(phase, fact) for phase, fact in PAIRS if TRANSITIONS[phase].get(fact) in opening}
    assert into == {
        (Phase.GATED, Fact.SCOPE_STARTED),
        (Phase.DRAINED_GATED, Fact.SCOPE_STARTED),
        (Phase.WAITING, Fact.DRAIN_ASKED),
    }


def test_a_scope_is_emptied_where_the_shard_ends_and_nowhere_else() -> None:
    emptying = {phase for phase, running in ACTIVITIES.items() if Activity.EMPTY_SCOPE in running}
    assert emptying == {Phase.STOPPING, Phase.ABORTING}


def test_every_activity_has_its_phase() -> None:
    assert {one for running in ACTIVITIES.values() for one in running} == set(Activity)


def test_nothing_runs_in_a_terminal_phase() -> None:
    assert [phase for phase in ACTIVITIES if is_terminal(phase)] == []


@pytest.mark.parametrize("phase", Phase)
def test_a_drain_changes_no_activity(phase: Phase) -> None:
    assert ACTIVITIES.get(drained(phase)) == ACTIVITIES.get(phase)


@pytest.mark.parametrize("phase", NOT_TERMINAL)
def test_a_second_drain_changes_nothing(phase: Phase) -> None:
    assert follows(drained(phase), Fact.DRAIN_ASKED) is drained(phase)
