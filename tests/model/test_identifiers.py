"""What the processes of shards are called in the journal."""

from hypothesis import given
from hypothesis import strategies as st

from llmgwd.model.identifiers import journal_identifier

CHARACTERS = st.characters(exclude_categories=["Cc", "Cs"])
IDS = st.text(CHARACTERS, min_size=1).filter(lambda text: len(text.encode()) <= 256)


def test_an_identifier_is_the_id_and_the_process() -> None:
    assert journal_identifier("org/model-7b@x:0", "ray-head") == "org/model-7b@x:0/ray-head"


def test_an_id_as_long_as_journald_takes_is_left_whole() -> None:
    assert journal_identifier("a" * 247, "engine") == "a" * 247 + "/engine"


def test_a_longer_one_keeps_its_beginning_and_gets_a_hash() -> None:

    name = journal_identifier("a" * 248, "engine")
    assert (name[:121], len(name), name[-7:]) == ("a" * 120 + "-", 120 + 1 + 32 + 7, "/engine")


@given(IDS, st.from_regex(r"[a-z0-9-]{1,32}", fullmatch=True))
def test_no_identifier_is_too_long_for_journald(id: str, process: str) -> None:
    assert len(journal_identifier(id, process).encode()) <= 254


@given(IDS, IDS)
def test_two_ids_never_share_an_identifier(one: str, other: str) -> None:
    if one != other:
        assert journal_identifier(one, "engine") != journal_identifier(other, "engine")
