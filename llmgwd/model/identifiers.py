"""What the processes of a shard are called, and what that makes of them in the journal."""

import hashlib

ENGINE = "engine"

# journald takes one line of at most 254 bytes (LINE_MAX of its stream header's first line).
_LONGEST = 254
_KEPT = 120


def journal_identifier(id: str, process: str) -> str:
    """SYSLOG_IDENTIFIER of `process`: `<id>/<process>`; of a longer id the beginning and a hash."""
    whole = f"{id}/{process}"
    if len(whole.encode()) <= _LONGEST:
        return whole
    begin = id.encode()[:_KEPT].decode(errors="ignore")
    return f"{begin}-{hashlib.sha256(id.encode()).hexdigest()[:32]}/{process}"
