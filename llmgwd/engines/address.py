"""Where a shard answers: an address beside a port, and whom to ask where it means every address."""

from llmgwd.engines.plan import Http
from llmgwd.model.addresses import is_ipv6, parsed
from llmgwd.model.spec import ShardSpec


def host_port(host: str, port: int) -> str:
    """`10.0.0.1:8000`, `[fd00::1]:8000` (RFC 3986, 3.2.2)."""
    return f"[{host}]:{port}" if is_ipv6(host) else f"{host}:{port}"


def base_url(host: str, port: int, *, instead_of_any: str = "") -> str:
    """The URL of a server on `host`, without a slash at its end.

    A host that means every address of the node (0.0.0.0, ::) is none to connect to: `instead_of_any` stands
    for it, or where that is empty the loopback address of the same family.
    """
    family = _family_of_any(host)
    if family:
        host = instead_of_any or ("127.0.0.1" if family == 4 else "::1")
    return f"http://{host_port(host, port)}"


def http_of(spec: ShardSpec) -> Http | None:
    """How to ask an engine that serves where the spec says; None where it says to ask nothing."""
    if not spec.health_path:
        return None
    return Http(base_url(spec.host, spec.port), spec.health_path, spec.served_model_name)


def _family_of_any(host: str) -> int:
    """4 or 6 for the unspecified address of that family, else 0."""
    address = parsed(host)
    return address.version if address is not None and address.is_unspecified else 0
