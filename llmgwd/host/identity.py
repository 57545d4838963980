"""Whom an engine runs as."""

import grp
import os
import pwd
import time
from dataclasses import dataclass

# Who may use the accelerators' device nodes, where the distribution has such groups.
_DEVICE_GROUPS = ("video", "render")
_KNOWN_FOR_S = 10.0


@dataclass(frozen=True, slots=True)
class Identity:
    """A user of this host, resolved. `None` in its place: as whoever the daemon is."""

    user: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str
    shell: str


class Users:
    """Users and groups by name. An answer is kept for some seconds: a burst of starts asks the same."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], tuple[float, Identity]] = {}

    def find(self, user: str, group: str) -> Identity:
        """`group` empty: the user's own. Raises KeyError with the name that this host does not know."""
        since, identity = self._known.get((user, group), (0.0, None))
        if identity is None or time.monotonic() - since > _KNOWN_FOR_S:
            identity = _look_up(user, group)
            self._known[user, group] = time.monotonic(), identity
        return identity


def _look_up(user: str, group: str) -> Identity:
    try:
        entry = pwd.getpwnam(user)
    except KeyError:
        raise KeyError(f"user {user}") from None
    try:
        gid = grp.getgrnam(group).gr_gid if group else entry.pw_gid
    except KeyError:
        raise KeyError(f"group {group}") from None
    return Identity(
        user=user,
        uid=entry.pw_uid,
        gid=gid,
        groups=tuple(sorted({*os.getgrouplist(user, gid), *_device_groups()})),
        home=entry.pw_dir,
        shell=entry.pw_shell,
    )


def _device_groups() -> set[int]:
    found = set()
    for name in _DEVICE_GROUPS:
        try:
            found.add(grp.getgrnam(name).gr_gid)
        except KeyError:
            continue
    return found
