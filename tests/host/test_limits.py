import resource

import pytest

from llmgwd.config import Limit
from llmgwd.host.limits import obtainable_memlock, rlimit

INFINITY = resource.RLIM_INFINITY


class Kernel:
    """RLIMIT_MEMLOCK of one process, whose hard limit may be raised or not."""

    def __init__(self, hard: int, *, may_raise: bool) -> None:
        self.limits = (65_536, hard)
        self.may_raise = may_raise

    def get(self, which: int) -> tuple[int, int]:
        assert which == resource.RLIMIT_MEMLOCK
        return self.limits

    def set(self, which: int, limits: tuple[int, int]) -> None:
        assert which == resource.RLIMIT_MEMLOCK
        if not self.may_raise:
            raise ValueError("not allowed to raise maximum limit")  # as Python says it
        self.limits = limits


@pytest.mark.parametrize(
    ("wanted", "hard", "may_raise", "obtainable"),
    [
        ("infinity", INFINITY, False, "infinity"),
        (1 << 30, INFINITY, False, 1 << 30),
        (65_536, 65_536, False, 65_536),
        (4_096, 65_536, False, 4_096),
        (1 << 30, 65_536, False, 65_536),
        ("infinity", 65_536, False, 65_536),
        (1 << 30, 65_536, True, 1 << 30),
        ("infinity", 65_536, True, "infinity"),
    ],
)
def test_a_limit_is_given_as_far_as_the_kernel_lets_and_ours_stays_as_it_is(
    wanted: Limit, hard: int, may_raise: bool, obtainable: Limit, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = Kernel(hard, may_raise=may_raise)
    monkeypatch.setattr(resource, "getrlimit", kernel.get)
    monkeypatch.setattr(resource, "setrlimit", kernel.set)
    assert (obtainable_memlock(wanted), kernel.limits) == (obtainable, (65_536, hard))


def test_memory_that_may_be_locked_is_without_limit_or_a_number() -> None:
    assert [rlimit("infinity"), rlimit(4096)] == [INFINITY, 4096]
