"""The unit of a shard, and which shard a unit is of."""

import hashlib

from llmgwd.bus.names import unit_escape, unit_unescape

PREFIX = "llmgw-shard-"
_SUFFIX = ".scope"
SCOPES = f"{PREFIX}*{_SUFFIX}"
# Unit names may have 255 bytes; PID 1 puts prefixes and suffixes of its own around them in /run.
_LONGEST_NAME = 200


def scope_name(id: str) -> str:
    """The unit of the shard `id`."""
    escaped = unit_escape(id)
    name = f"{PREFIX}{escaped}{_SUFFIX}"
    if len(name) > _LONGEST_NAME:
        digest = hashlib.sha256(id.encode()).hexdigest()[:32]
        name = f"{PREFIX}{escaped[:120]}-{digest}{_SUFFIX}"
    return name


def shard_id(unit: str) -> str:
    """The id that a scope's name was made of; of a shortened name, or one that is not ours, what there is."""
    escaped = unit.removeprefix(PREFIX).removesuffix(_SUFFIX)
    try:
        return unit_unescape(escaped)
    except ValueError:  # cut off inside of a character, say
        return escaped
