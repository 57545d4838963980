"""Looking again and again, with a deadline, at what announces itself in no other way."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

INTERVAL_S = 0.02


def wait_for(what: str, look: Callable[[], T], *, timeout_s: float = 10.0) -> T:
    """Looks until the answer is true, and returns it. Raises TimeoutError with the last answer."""
    deadline = time.monotonic() + timeout_s
    while not (answer := look()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {timeout_s:g} s: {what}; last: {answer!r}")
        time.sleep(INTERVAL_S)
    return answer
