"""What the documents name is there."""

import re
from pathlib import Path

import pytest

TREE = Path(__file__).resolve().parents[1]
DOCUMENTS = [TREE / "README.md", *sorted((TREE / "docs").glob("*.md"))]

# A file as it stands in the text, from one of the places below; an absolute path is none of ours.
FILE = re.compile(r"`((?:[\w.*-]+/)*[\w.*-]+\.(?:py|sh|md|toml|xml|conf|service|slice)|(?:[\w.-]+/)+)`")
LINK = re.compile(r"\]\(([^)#:]+)\)")
# What stands for a name in them, and a unit that systemd makes.
STAND_IN = re.compile(r"NAME|ID")


def named(pattern: re.Pattern[str]) -> list[object]:
    return [
        pytest.param(document, name, id=f"{document.name}: {name}")
        for document in DOCUMENTS
        for name in dict.fromkeys(pattern.findall(document.read_text(encoding="utf-8")))
    ]


@pytest.mark.parametrize(("document", "name"), named(FILE))
def test_every_file_that_is_named_is_there(document: Path, name: str) -> None:
    if STAND_IN.search(name):
        return
    places = (TREE, TREE / "llmgwd", TREE / "units", document.parent)
    assert [place for place in places if list(place.glob(name))] != []


@pytest.mark.parametrize(("document", "link"), named(LINK))
def test_every_link_leads_to_a_file(document: Path, link: str) -> None:
    assert (document.parent / link).is_file()
