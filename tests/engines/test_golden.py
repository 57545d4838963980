"""Every engine, alone, as leader and as worker, with its options: whole plans, compared as values."""

import pytest

from tests.engines.golden import GOLDEN
from tests.engines.specs import Case, plan_of


@pytest.mark.parametrize(
    ("engine", "case"),
    [
        pytest.param(engine, case, id=f"{engine}: {name}")
        for engine, cases in GOLDEN.items()
        for name, case in cases.items()
    ],
)
def test_a_spec_becomes_this_plan(engine: str, case: Case) -> None:
    assert plan_of(engine, case) == case.plan
