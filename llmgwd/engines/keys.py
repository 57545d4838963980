"""Keys of a spec that mean nothing to an engine, or that it would take for something else."""

from collections.abc import Mapping
from typing import Final

from llmgwd.model.spec import ShardSpec
from llmgwd.model.wording import refuse

# The one value of each that asks for nothing, and how that is said.
SILENT: Final[Mapping[str, tuple[object, str]]] = {
    "executor": ("", "none: {} knows no executors"),
    "data_parallel": (1, "1: {} has none"),
    "data_parallel_balancing": ("internal", "internal: {} has no other"),
    "pipeline_parallel": (1, "1: {} has none"),
    "tensor_parallel": (1, "1: {} has none"),
}


def check_has_none(spec: ShardSpec, *keys: str) -> None:
    """For keys that the engine has nothing for. Raises InvalidSpec."""
    for key in keys:
        silent, takes = SILENT[key]
        if getattr(spec, key) != silent:
            raise refuse(key, getattr(spec, key), takes.format(spec.engine))


def check_not_options(spec: ShardSpec, *keys: str) -> None:
    """For values that stand where the engine would read an option. Raises InvalidSpec."""
    for key in keys:
        if getattr(spec, key).startswith("-"):
            raise refuse(key, getattr(spec, key), "a name that does not begin with '-'")
