import ctypes
import ctypes.util
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmgwd.bus.names import from_path_label, path_label, unit_escape, unit_path, unit_unescape

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)
MEAN_TEXTS = st.text(st.sampled_from("aZ09_-./\\:@%x ü\n🙂"), max_size=12)


def test_a_path_label_is_what_sd_bus_makes_of_known_texts() -> None:
    texts = ["org/model-7b@x:0", "", "_", "7b", "a7", "ü", "a.b"]
    labels = ["org_2fmodel_2d7b_40x_3a0", "_", "_5f", "_37b", "a7", "_c3_bc", "a_2eb"]
    assert [path_label(text) for text in texts] == labels
    assert [from_path_label(label) for label in labels] == texts


@given(TEXTS | MEAN_TEXTS)
def test_a_path_label_is_what_libsystemd_writes(text: str) -> None:
    libsystemd = ctypes.CDLL("libsystemd.so.0")
    written = ctypes.c_char_p()
    assert libsystemd.sd_bus_path_encode(b"/a", text.encode(), ctypes.byref(written)) == 0
    assert written.value == b"/a/" + path_label(text).encode()
    ctypes.CDLL(None).free(written)


@given(TEXTS | MEAN_TEXTS)
def test_a_path_label_is_read_back(text: str) -> None:
    assert from_path_label(path_label(text)) == text


@pytest.mark.parametrize("label", ["", "a-b", "_2", "_2F", "_zz", "7b", "_61", "_c3", "a_", "__"])
def test_what_is_no_path_label_is_refused(label: str) -> None:
    with pytest.raises(ValueError, match="label"):
        from_path_label(label)


def test_a_unit_has_its_object_below_systemd() -> None:
    path = "/org/freedesktop/systemd1/unit/llmgw_2dshard_2da_5cx2db_2escope"
    assert unit_path(r"llmgw-shard-a\x2db.scope") == path


def test_an_escaped_unit_name_is_what_systemd_makes_of_known_texts() -> None:
    texts = ["org/model-7b@x:0", "", "..", "-x", "a\\b", "%n", "a b", "ü", "/"]
    escaped = [
        r"org-model\x2d7b\x40x:0",
        "",
        r"\x2e.",
        r"\x2dx",
        r"a\x5cb",
        r"\x25n",
        r"a\x20b",
        r"\xc3\xbc",
        "-",
    ]
    assert [unit_escape(text) for text in texts] == escaped
    assert [unit_unescape(text) for text in escaped] == texts


@settings(max_examples=30, deadline=None)
@given(st.lists((TEXTS | MEAN_TEXTS).filter(bool), min_size=1, max_size=50))
def test_an_escaped_unit_name_is_what_systemd_escape_writes(texts: list[str]) -> None:
    answer = subprocess.run(["systemd-escape", "--", *texts], check=True, capture_output=True, text=True)
    assert [unit_escape(text) for text in texts] == answer.stdout.removesuffix("\n").split(" ")


@given(TEXTS | MEAN_TEXTS)
def test_an_escaped_unit_name_is_read_back(text: str) -> None:
    assert unit_unescape(unit_escape(text)) == text


@pytest.mark.parametrize("escaped", ["a b", r"\x2", r"\x2D", r"\xzz", ".a", r"\x61", "ü", "\\"])
def test_what_is_not_escaped_for_a_unit_is_refused(escaped: str) -> None:
    with pytest.raises(ValueError, match="escaped"):
        unit_unescape(escaped)
