"""The exit statuses, which scripts rely on."""

from typing import Final

DONE: Final = 0
FAILED: Final = 1
"""Refused, failed, or a wait that ended otherwise: one line on standard error says what could not be done."""
USAGE: Final = 2
NOT_READY: Final = 3
"""`status ID` of a shard that is not ready."""
NO_SUCH_SHARD: Final = 4
UNREACHABLE: Final = 5
"""The daemon cannot be reached."""

# As a shell reports the end by SIGINT and by SIGPIPE.
INTERRUPTED: Final = 130
NOBODY_READS: Final = 141
