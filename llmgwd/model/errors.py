"""The refusals: every way in which the node says no, each with its public name.

Refusal
├── InvalidSpec        a spec or an option: names the key, what it got and what it takes
├── InvalidConfig      a configuration file: names the file and the key
├── NoSuchShard        no shard has that id
├── NoSuchOrphan       not a scope that ListOrphans lists
├── SpecConflict       a live shard of that id runs with another spec
├── Busy               the id is taken by something that is still ending
├── WrongState         the shard's state does not allow it
├── EngineUnavailable  executable or working directory missing or not usable
├── ResourceBusy       a GPU or a port that another live shard has claimed
├── StateNotSaved      the record could not be written; nothing was started
├── LimitExceeded      says the limit
├── Unkillable         processes that outlived SIGKILL
├── Internal           our own fault; details are in the journal
├── ScopeFailed        systemd did not start the scope; in a shard's `Reason` only
└── NotAllowed         the caller may not; D-Bus's own AccessDenied
"""

from collections.abc import Mapping
from types import MappingProxyType


class Refusal(Exception):  # noqa: N818  (the names are the contract's, and the peer reads them)
    """Something that could not be done, in one sentence for people; `name` is what programs go by."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    @property
    def name(self) -> str:
        """The error's public name, without a prefix."""
        return type(self).__name__

    def __str__(self) -> str:
        # busctl shows the text only, so the name stands in it
        return f"{self.name}: {self.text}"


class InvalidSpec(Refusal):
    pass


class InvalidConfig(Refusal):
    pass


class NoSuchShard(Refusal):
    pass


class NoSuchOrphan(Refusal):
    pass


class SpecConflict(Refusal):
    pass


class Busy(Refusal):
    pass


class WrongState(Refusal):
    pass


class EngineUnavailable(Refusal):
    pass


class ResourceBusy(Refusal):
    pass


class StateNotSaved(Refusal):
    pass


class LimitExceeded(Refusal):
    pass


class Unkillable(Refusal):
    pass


class Internal(Refusal):
    pass


class ScopeFailed(Refusal):
    pass


class NotAllowed(Refusal):
    pass


BY_NAME: Mapping[str, type[Refusal]] = MappingProxyType(
    {
        refusal.__name__: refusal
        for refusal in (
            InvalidSpec,
            InvalidConfig,
            NoSuchShard,
            NoSuchOrphan,
            SpecConflict,
            Busy,
            WrongState,
            EngineUnavailable,
            ResourceBusy,
            StateNotSaved,
            LimitExceeded,
            Unkillable,
            Internal,
            ScopeFailed,
            NotAllowed,
        )
    }
)
