"""Names of ours on the bus: service, objects, errors."""

from llmgwd.bus.names import path_label

SERVICE = "org.llmgw.Node1"
ROOT = "/org/llmgw/Node1"
ERROR = "org.llmgw.Node1.Error."


def shard(id: str) -> str:
    return f"{ROOT}/shard/{path_label(id)}"
