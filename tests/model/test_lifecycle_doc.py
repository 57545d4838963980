"""docs/lifecycle.md is what its generator makes of the tables."""

from docs.lifecycle import PAGE, TABLES, page
from llmgwd.model.lifecycle import Phase


def test_the_page_is_what_the_generator_makes() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run: python -m docs.lifecycle"


def test_every_phase_is_in_one_table() -> None:
    assert sorted(phase for phases in TABLES.values() for phase in phases) == sorted(Phase)
