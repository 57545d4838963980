"""What of a configured limit this daemon can give to the processes of engines."""

import resource

from llmgwd.config import Limit


def rlimit(limit: Limit) -> int:
    """As setrlimit(2) takes it."""
    return resource.RLIM_INFINITY if limit == "infinity" else int(limit)


def obtainable_memlock(wanted: Limit) -> Limit:
    """How many bytes an engine will be able to lock: `wanted`, or what the kernel lets this daemon give.

    Leaves the daemon's own limits as they are.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    raw = rlimit(wanted)
    if hard in {raw, resource.RLIM_INFINITY} or (wanted != "infinity" and wanted < hard):
        return wanted
    try:  # capabilities and user namespaces decide: trying is the only way to know
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (soft, raw))
    except (OSError, ValueError):
        return hard
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (soft, hard))
    return wanted
