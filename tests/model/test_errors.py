"""The refusals carry the contract's names."""

import pytest

from llmgwd.model import errors
from llmgwd.model.errors import BY_NAME, Refusal, SpecConflict

CONTRACT = [
    "InvalidSpec",
    "InvalidConfig",
    "NoSuchShard",
    "NoSuchOrphan",
    "SpecConflict",
    "Busy",
    "WrongState",
    "EngineUnavailable",
    "ResourceBusy",
    "StateNotSaved",
    "LimitExceeded",
    "Unkillable",
    "Internal",
    "ScopeFailed",
    "NotAllowed",
]


def test_the_names_are_the_contracts() -> None:
    assert list(BY_NAME) == CONTRACT


def test_no_refusal_is_missing_in_the_table() -> None:
    defined = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Refusal)]
    assert list(BY_NAME.values()) == [kind for kind in defined if kind is not Refusal]


@pytest.mark.parametrize("name", CONTRACT)
def test_every_text_begins_with_the_name(name: str) -> None:
    refusal = BY_NAME[name]("what could not be done")
    assert (refusal.name, refusal.text, str(refusal)) == (
        name,
        "what could not be done",
        f"{name}: what could not be done",
    )


def test_a_refusal_is_caught_by_its_base() -> None:
    with pytest.raises(Refusal, match=r"^SpecConflict: shard a runs with port 8001, asked for 8002$"):
        raise SpecConflict("shard a runs with port 8001, asked for 8002")
