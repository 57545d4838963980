"""Whether a plan can be run at all: builders of other packages are believed no more than callers are."""

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from llmgwd.engines.plan import Http, Plan, Process
from llmgwd.model import checks
from llmgwd.model.errors import InvalidSpec
from llmgwd.model.identifiers import ENGINE
from llmgwd.model.spec_keys import sidecar_name
from llmgwd.model.wording import kind_of, refuse

PORT = re.compile(r"[0-9]{1,5}")


def check_sound(plan: object) -> Plan:
    """The plan, each part of the type that it declares. Raises InvalidSpec or LimitExceeded, naming it."""
    if not isinstance(plan, Plan):
        raise InvalidSpec(f"got {kind_of(plan)}, takes a Plan")
    processes = checks.listed(_process, of="Process")("processes", plan.processes)
    if not processes or processes[-1].name != ENGINE:
        raise InvalidSpec(f"processes: the last one has to be named {ENGINE}")
    checks.refuse_twice("processes", [process.name for process in processes], ".name")
    checks.listed(checks.port, of="ports")("ports", plan.ports)
    checks.listed(checks.text)("warnings", plan.warnings)
    if plan.http is not None:
        _http("http", plan.http)
    return plan


def _process(where: str, value: object) -> Process:
    if not isinstance(value, Process):
        raise InvalidSpec(f"{where}: got {kind_of(value)}, takes a Process")
    if value.name != ENGINE:
        sidecar_name(f"{where}.name", value.name)
    _argv(f"{where}.argv", value.argv)
    _environment(f"{where}.environment", value.environment)
    checks.absolute(f"{where}.working_directory", value.working_directory)
    checks.listed(_target)(f"{where}.waits_for", value.waits_for)
    checks.listed(checks.program)(f"{where}.or_named", value.or_named)
    return value


# However many there are: spec and configuration may each have brought as many as they may.
def _argv(where: str, value: object) -> None:
    if not isinstance(value, list | tuple):
        raise InvalidSpec(f"{where}: got {kind_of(value)}, takes a list of strings")
    if not value:
        raise InvalidSpec(f"{where}: got none, takes a program and its arguments")
    checks.program(f"{where}[0]", value[0])
    for index, argument in enumerate(value):
        checks.text(f"{where}[{index}]", argument)


def _environment(where: str, value: object) -> None:
    if not isinstance(value, Mapping):
        raise InvalidSpec(f"{where}: got {kind_of(value)}, takes a table of strings")
    for name, content in value.items():
        checks.environment(where, {name: content})


def _http(where: str, value: object) -> None:
    if not isinstance(value, Http):
        raise InvalidSpec(f"{where}: got {kind_of(value)}, takes an Http")
    if not _is_url(checks.word(f"{where}.base_url", value.base_url)):
        raise refuse(f"{where}.base_url", value.base_url, "a URL of http or https")
    checks.url_path(f"{where}.health_path", value.health_path)
    checks.text(f"{where}.served_model", value.served_model)
    checks.seconds(f"{where}.timeout_s", value.timeout_s)
    checks.flag(f"{where}.is_endpoint", value.is_endpoint)


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:  # brackets around what is no IPv6 address, a port that is none
        return False


def _target(where: str, value: object) -> str:
    host, colon, port = checks.text(where, value).rpartition(":")
    if not host or not colon or not PORT.fullmatch(port) or not 0 < int(port) < 1 << 16:
        raise refuse(where, value, "HOST:PORT")
    return host
