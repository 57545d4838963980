"""Whom an engine runs as."""

import grp
import os
import pwd
from dataclasses import dataclass

# Who may use the accelerators' device nodes, where the distribution has such groups.
_DEVICE_GROUPS = ("video", "render")


@dataclass(frozen=True, slots=True)
class Identity:
    """A user of this host, resolved. `None` in its place: as whoever the daemon is."""

    user: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str
    shell: str

    @classmethod
    def of(cls, user: str, group: str) -> "Identity":
        """`group` empty: the user's own. Raises KeyError with the name that this host does not know."""
        try:
            entry = pwd.getpwnam(user)
        except KeyError:
            raise KeyError(f"user {user}") from None
        try:
            gid = grp.getgrnam(group).gr_gid if group else entry.pw_gid
        except KeyError:
            raise KeyError(f"group {group}") from None
        groups = set(os.getgrouplist(user, gid)) | {
            known.gr_gid for known in grp.getgrall() if known.gr_name in _DEVICE_GROUPS
        }
        return cls(
            user=user,
            uid=entry.pw_uid,
            gid=gid,
            groups=tuple(sorted(groups)),
            home=entry.pw_dir,
            shell=entry.pw_shell,
        )
