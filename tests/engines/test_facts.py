"""Facts: which GPU a name means."""

from dataclasses import replace

import pytest

from llmgwd.engines.facts import find_gpu
from tests.engines.specs import NVIDIA

GPUS = tuple(
    replace(gpu, uuid=uuid) for gpu, uuid in zip(NVIDIA.gpus, ("GPU-1", "GPU-1a", "GPU-2b", ""), strict=False)
)


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("0", 0),
        ("3", 3),
        ("4", None),
        ("GPU-2", 2),
        ("GPU-2b", 2),
        ("GPU-", None),
        ("GPU-1", 0),
        ("GPU-3", None),
    ],
)
def test_a_gpu_is_found_by_its_index_or_by_as_much_of_its_uuid_as_is_its_own(
    name: str, index: int | None
) -> None:
    found = find_gpu(name, GPUS)
    assert (found and found.index) == index
