"""One shard, one node, in words."""

import ipaddress
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from llmgwd.cli.table import paragraph, table
from llmgwd.cli.terminal import tint, width

Properties = Mapping[str, Any]


def state_word(shard: Properties) -> str:
    """The state, and where it is ready whether it is that only by name."""
    failing = shard.get("State") == "ready" and shard.get("Health") == "failing"
    return "ready, failing" if failing else str(shard.get("State"))


def because(shard: Properties) -> str:
    """What follows the state in a sentence; empty where there is no more to say than the state does."""
    reason = shard.get("Reason")
    return f": {reason}" if reason and reason != shard.get("State") else ""


def shard_lines(shard: Properties) -> list[str]:
    """Everything that is worth a look; what is not known yet is left out."""
    lines = paragraph(
        (
            ("Shard", shard["Id"]),
            ("State", shard["State"]),
            ("Reason", shard["Reason"]),
            ("Health", "" if shard["Health"] == "unknown" else shard["Health"]),
            ("Engine", shard["Engine"]),
            ("Model", shard["Model"]),
            ("Replica", f"{shard['ReplicaId']}, rank {shard['Rank']} of {shard['Nodes']}"),
            ("Endpoint", shard["Endpoint"]),
            ("GPUs", ", ".join(shard["Gpus"])),
            ("Pid", str(shard["Pid"] or "")),
            ("Exit", _exit(shard)),
            ("Started", _when(shard["Started"])),
            ("Ready", _when(shard["Ready"])),
            ("Unit", shard["Unit"]),
            ("Invocation", shard["InvocationId"]),
            ("Cgroup", shard["ControlGroup"]),
            ("Adopted", "yes, it was started by an earlier llmgwd" if shard["Adopted"] else ""),
        )
    )
    state = shard["State"]
    return [
        line.replace(state, tint(state, state), 1) if line.startswith("State:") else line for line in lines
    ]


def node_lines(node: Properties) -> list[str]:
    """The node, its GPUs and RDMA ports, and last what looks wrong."""
    gpus, ports = node["Gpus"], node["RdmaDevices"]
    lines = paragraph(
        (
            ("Node", node["NodeName"]),
            ("Version", node["Version"]),
            ("Address", _address(node["ManagementAddress"], node["ManagementInterface"])),
            ("GPUs", "" if gpus else "none"),
            ("RDMA", "" if ports else "none"),
            ("NCCL GID index", _index(node["NcclIbGidIndex"], "none passed") if ports else ""),
            ("Engines", ", ".join(node["Engines"])),
            ("Starts", str(node["Starts"])),
            ("Ends", ", ".join(f"{number} {cause}" for cause, number in sorted(node["Ends"].items()))),
        )
    )
    lines += _section(("GPU", "VENDOR", "NAME", "MEMORY", "SHARD", "UUID"), map(_gpu, gpus))
    lines += _section(("RDMA", "PORT", "LINK", "STATE", "INTERFACE", "GID INDEX", "GID"), map(_port, ports))
    if node["Warnings"]:
        lines += ["", *paragraph([("Warning", text) for text in node["Warnings"]])]
    return lines


def _gpu(gpu: Properties) -> Sequence[str]:
    memory = _gib(gpu["memory_bytes"]) if gpu["memory_bytes"] else ""
    return (str(gpu["index"]), gpu["vendor"], gpu["name"], memory, gpu["shard"], gpu["uuid"])


def _port(port: Properties) -> Sequence[str]:
    return (
        port["device"], str(port["port"]), port["link_layer"], port["state"], port["interface"],
        _index(port["gid_index"], ""), _gid(port["gid"]),
    )  # fmt: skip


def _section(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    present = list(rows)
    return ["", *table(headings, present, width=width(sys.stdout))] if present else []


def _exit(shard: Properties) -> str:
    kills = shard["OomKills"]
    parts = (
        f"status {shard['ExitCode']}" if shard["ExitCode"] >= 0 else "",
        shard["ExitSignal"],
        f"{kills} killed for lack of memory" if kills else "",
    )
    return ", ".join(part for part in parts if part)


def _when(microseconds: int) -> str:
    """Local time, to the second; empty for "not yet"."""
    if not microseconds:
        return ""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(microseconds / 1_000_000))


def _address(address: str, interface: str) -> str:
    return f"{address} ({interface})" if interface else address or "none"


def _index(index: int, none: str) -> str:
    return none if index < 0 else str(index)


def _gid(gid: str) -> str:
    """As addresses are usually written; sysfs writes all eight groups."""
    try:
        address = ipaddress.IPv6Address(gid)
    except ValueError:
        return gid
    return f"::ffff:{address.ipv4_mapped}" if address.ipv4_mapped else str(address)


def _gib(count: int) -> str:
    return f"{count / (1 << 30):.0f} GiB"
