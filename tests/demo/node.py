"""What the story looks at to know whether it is true."""

import json
from typing import Any

from tests.demo.place import Place

Shard = dict[str, Any]


class NotSo(Exception):  # noqa: N818
    """The story says what is not so; a sentence about what was found."""


class Node:
    """llmgwd and what it runs, where the story happens."""

    def __init__(self, place: Place) -> None:
        self.place = place

    def shards(self) -> list[Shard]:
        listed = self._printed("llmgwctl", *self.place.user_flag, "list", "--json")
        return list(json.loads(listed))

    def shard(self, id: str) -> Shard:
        """Raises NotSo."""
        for shard in self.shards():
            if shard["id"] == id:
                return shard
        raise NotSo(f"llmgwd has no shard {id}")

    def daemon_pid(self) -> int:
        """0 while there is none."""
        return int(self._property("MainPID"))

    def writers(self, shard: Shard) -> set[int]:
        """Pids of those who wrote the shard's output, as journald had them from the kernel."""
        since = f"--since=@{shard['started'] / 1e6:.6f}"
        entries = self._printed(
            "journalctl",
            self.place.engines_journal,
            f"--unit={shard['unit']}",
            since,
            "--output=json",
            "_TRANSPORT=stdout",
        )
        return {int(json.loads(entry)["_PID"]) for entry in entries.splitlines()}

    def daemon_is_ready(self) -> bool:
        return self._property("ActiveState") == "active"

    def daemon_processes(self) -> list[int]:
        return self.processes(self._property("ControlGroup"))

    def processes(self, control_group: str) -> list[int]:
        listed = self._printed("cat", f"/sys/fs/cgroup{control_group}/cgroup.procs")
        return [int(pid) for pid in listed.split()]

    def user_of(self, pid: int) -> str:
        return self._printed("stat", "--format=%U", f"/proc/{pid}").strip()

    def exists(self, path: str) -> bool:
        return self.place.run(["test", "-e", path], check=False).returncode == 0

    def _property(self, name: str) -> str:
        shown = self._printed(
            "systemctl",
            *self.place.user_flag,
            "show",
            "--value",
            f"--property={name}",
            self.place.daemon_unit,
        )
        return shown.strip()

    def _printed(self, *command: str) -> str:
        return self.place.run(command).stdout
