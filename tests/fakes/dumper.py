"""Prints, as one line of JSON, what a process was given; then waits."""

import json
import os
import resource
import signal
import sys
from pathlib import Path

LIMITS = {
    name: getattr(resource, f"RLIMIT_{name}") for name in ("NOFILE", "MEMLOCK", "CORE", "NPROC", "STACK")
}


def main() -> None:
    print(json.dumps(dump()), flush=True)
    signal.pause()


def dump() -> dict[str, object]:
    status = dict(
        line.split(":\t", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":\t" in line
    )
    return {
        "argv": sys.argv,
        "environment": dict(os.environ),
        "descriptors": descriptors(),
        "capabilities": {name: status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")},
        "blocked": status["SigBlk"],
        "uids": os.getresuid(),
        "gids": os.getresgid(),
        "groups": sorted(os.getgroups()),
        "directory": str(Path.cwd()),
        "umask": status["Umask"],
        "cgroup": next(
            line[3:] for line in Path("/proc/self/cgroup").read_text().splitlines() if line.startswith("0::")
        ),
        "oom_score_adj": int(Path("/proc/self/oom_score_adj").read_text()),
        "limits": {name: resource.getrlimit(limit) for name, limit in LIMITS.items()},
        "leads_its_session": os.getsid(0) == os.getpid(),
    }


def descriptors() -> dict[str, str]:
    folder = Path("/proc/self/fd")
    targets = {}
    for entry in os.listdir(folder):
        try:
            targets[entry] = (folder / entry).readlink()
        except FileNotFoundError:  # the one that the listing itself had open
            continue
    return {number: str(target).partition(":")[0] for number, target in sorted(targets.items())}


if __name__ == "__main__":
    main()
