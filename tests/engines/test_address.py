from typing import Any

import pytest

from llmgwd.engines.address import base_url, host_port, http_of
from llmgwd.engines.plan import Http
from tests.engines.specs import spec


@pytest.mark.parametrize(
    ("host", "written"),
    [
        ("10.0.0.1", "10.0.0.1:80"),
        ("node-1.example", "node-1.example:80"),
        ("fd00::1", "[fd00::1]:80"),
        ("fe80::1%eth0", "[fe80::1%eth0]:80"),
    ],
)
def test_brackets_stand_around_ipv6_alone(host: str, written: str) -> None:
    assert host_port(host, 80) == written
    assert base_url(host, 80) == f"http://{written}"


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("0.0.0.0", "http://127.0.0.1:80"),
        ("::", "http://[::1]:80"),
        ("0:0:0:0:0:0:0:0", "http://[::1]:80"),
    ],
)
def test_every_address_is_asked_at_the_loopback_one(host: str, url: str) -> None:
    assert base_url(host, 80) == url


def test_every_address_is_told_to_others_as_the_one_given() -> None:
    assert base_url("::", 80, instead_of_any="10.0.0.1") == "http://10.0.0.1:80"
    assert base_url("0.0.0.0", 80, instead_of_any="fd00::1") == "http://[fd00::1]:80"
    assert base_url("10.0.0.2", 80, instead_of_any="10.0.0.1") == "http://10.0.0.2:80"


@pytest.mark.parametrize(
    ("values", "http"),
    [
        ({"port": 80, "health_path": "/up"}, Http("http://127.0.0.1:80", "/up", "")),
        ({"port": 80, "health_path": "/up", "model": "m"}, Http("http://127.0.0.1:80", "/up", "m")),
        (
            {"host": "::", "port": 80, "health_path": "/", "model": "m", "served_model_name": "a"},
            Http("http://[::1]:80", "/", "a", timeout_s=2.0, is_endpoint=True),
        ),
        ({"host": "fd00::1", "port": 80, "health_path": "/"}, Http("http://[fd00::1]:80", "/", "")),
        ({"port": 80, "model": "m"}, None),
    ],
)
def test_a_shard_is_asked_where_it_serves_and_for_what_it_serves(
    values: dict[str, Any], http: Http | None
) -> None:
    assert http_of(spec("command", command=["a"], **values)) == http
