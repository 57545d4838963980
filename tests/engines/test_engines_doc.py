"""docs/engines.md is what its generator makes of the builders."""

import re

from docs.engines import OVER_NODES, PAGE, page
from llmgwd.engines.registry import Engines


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run: python -m docs.engines"


def test_of_every_engine_it_is_told_what_it_does_over_nodes() -> None:
    assert [
        name for name in Engines() if not re.search(rf"^### .*\b{name}\b", OVER_NODES, re.MULTILINE)
    ] == []
