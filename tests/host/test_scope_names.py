"""The names of shards' scopes, and the ids that are read back from them."""

import hashlib
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from llmgwd.host.scope_names import SCOPES, scope_name, shard_id
from llmgwd.model.spec import check_id

UNTIMED = settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])

# systemd.unit(5): "ASCII letters, digits, ":", "-", "_", ".", and "\""
UNIT = re.compile(r"llmgw-shard-[A-Za-z0-9:_.\\-]+\.scope")


def is_id(text: str) -> bool:
    return 1 <= len(text.encode()) <= 256 and text == text.strip()


IDS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=256).filter(is_id)
LONG_IDS = st.text(st.sampled_from("aZ9-/\\ü🙂. "), min_size=40, max_size=256).filter(is_id)


def shortened(id: str, kept: str) -> str:
    return f"llmgw-shard-{kept}-{hashlib.sha256(id.encode()).hexdigest()[:32]}.scope"


@pytest.mark.parametrize(
    ("id", "unit"),
    [
        ("a", "llmgw-shard-a.scope"),
        ("org/model-7b@x:0", r"llmgw-shard-org-model\x2d7b\x40x:0.scope"),
        (".hidden", r"llmgw-shard-\x2ehidden.scope"),
        ("-", r"llmgw-shard-\x2d.scope"),
        ("/", "llmgw-shard--.scope"),
        ("a.scope", "llmgw-shard-a.scope.scope"),
        ("%n", r"llmgw-shard-\x25n.scope"),
        ("é", r"llmgw-shard-\xc3\xa9.scope"),
        ("a" * 182, f"llmgw-shard-{'a' * 182}.scope"),
    ],
)
def test_a_scope_is_named_after_its_shard(id: str, unit: str) -> None:
    assert (scope_name(id), shard_id(unit)) == (unit, id)


@pytest.mark.parametrize(
    ("id", "kept"),
    [
        ("a" * 183, "a" * 120),
        ("a" * 256, "a" * 120),
        ("-" * 256, r"\x2d" * 30),
        ("a" + "ü" * 127, "a" + r"\xc3\xbc" * 14 + r"\xc3\xb"),
        ("🙂" * 64, r"\xf0\x9f\x99\x82" * 7 + r"\xf0\x9f"),
    ],
)
def test_a_name_of_more_than_200_bytes_is_shortened(id: str, kept: str) -> None:
    assert (scope_name(id), len(kept)) == (shortened(id, kept), 120)


def test_of_a_shortened_name_there_is_what_was_kept() -> None:
    digest = hashlib.sha256(b"a" * 256).hexdigest()[:32]
    assert shard_id(scope_name("a" * 256)) == "a" * 120 + "/" + digest
    # cut off inside of a character
    unit = scope_name("🙂" * 64)
    assert shard_id(unit) == unit.removeprefix("llmgw-shard-").removesuffix(".scope")


@pytest.mark.parametrize(
    "name", ["", ".x", "a@b", "a b", r"a\x2", r"\xzz", r"\x61", "ü", r"a\xff", "x" * 300, r"a\x2D"]
)
def test_a_name_that_is_not_ours_has_an_id_all_the_same(name: str) -> None:
    assert shard_id(f"llmgw-shard-{name}.scope") == name


@UNTIMED
@given(IDS | LONG_IDS)
def test_every_id_has_a_name_that_systemd_takes(id: str) -> None:
    check_id(id)
    unit = scope_name(id)
    assert (len(unit) <= 200, bool(UNIT.fullmatch(unit))) == (True, True)
    assert re.fullmatch(SCOPES.replace(".", r"\.").replace("*", ".*"), unit)


@UNTIMED
@given(IDS | LONG_IDS)
def test_an_id_is_read_back_from_its_name_unless_that_was_shortened(id: str) -> None:
    unit = scope_name(id)
    assert shard_id(unit) == id or unit.endswith(f"-{hashlib.sha256(id.encode()).hexdigest()[:32]}.scope")


@UNTIMED
@given(st.sets(IDS | LONG_IDS, min_size=2, max_size=4))
def test_no_two_ids_have_the_same_name(ids: set[str]) -> None:
    assert len(set(map(scope_name, ids))) == len(ids)


@UNTIMED
@given(LONG_IDS, LONG_IDS)
def test_ids_that_begin_alike_have_different_names(beginning: str, end: str) -> None:
    first, second = f"{beginning}a{end}".strip(), f"{beginning}b{end}".strip()
    assert scope_name(first) != scope_name(second)


@UNTIMED
@given(st.text(max_size=60))
def test_no_name_is_too_odd_to_have_an_id(name: str) -> None:
    assert isinstance(shard_id(f"llmgw-shard-{name}.scope"), str)
