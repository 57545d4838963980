from typing import Any

import pytest

from llmgwd.engines.engine import Loading, Traits
from llmgwd.engines.tgi import Tgi
from llmgwd.model.errors import InvalidSpec
from tests.engines.specs import plan


def refusal_of(**values: Any) -> str:
    with pytest.raises(InvalidSpec) as refusal:
        plan("tgi", **{"model": "org/m", **values})
    return refusal.value.text


def test_it_says_what_the_daemon_has_to_know() -> None:
    assert Tgi.traits == Traits(
        executable="text-generation-launcher",
        port=3000,
        health_path="/health",
        while_loading=Loading.REFUSES,
        requests=("tgi_queue_size", "tgi_batch_current_size"),
        api_key_variable="API_KEY",
        api_key_option="--api-key",
    )


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (
            {"nodes": 2, "rank": 1, "leader_address": "10.0.0.1", "leader_port": 29500},
            "nodes: got 2, takes 1: tgi cannot span nodes",
        ),
        ({"executor": "mp"}, "executor: got 'mp', takes none: tgi knows no executors"),
        (
            {"data_parallel_balancing": "external"},
            "data_parallel_balancing: got 'external', takes internal: tgi has no other",
        ),
        ({"data_parallel": 2}, "data_parallel: got 2, takes 1: tgi has none"),
        ({"pipeline_parallel": 2}, "pipeline_parallel: got 2, takes 1: tgi has none"),
        ({"model": "-m"}, "model: got '-m', takes a name that does not begin with '-'"),
        (
            {"served_model_name": "m"},
            "served_model_name: got 'm', takes org/m: tgi serves a model by its own name",
        ),
        (
            {"tensor_parallel": 2, "gpus": ["0"]},
            "gpus: got 1, takes 2: tensor_parallel 2 x pipeline_parallel 1 x data_parallel 1 on 1 node",
        ),
    ],
)
def test_what_it_cannot_do_is_refused_by_key(values: dict[str, Any], text: str) -> None:
    assert refusal_of(**values) == text


@pytest.mark.parametrize("host", ["localhost", "node-1.example", "fe80::1%eth0"])
def test_a_host_that_it_would_take_for_every_address_is_refused(host: str) -> None:
    takes = "an IP address without a zone: tgi looks up no names"
    assert refusal_of(host=host) == f"host: got '{host}', takes {takes}"


@pytest.mark.parametrize(("port", "values"), [(29500, {}), (3000, {"leader_port": 3000})])
def test_gpus_cannot_meet_where_it_serves(port: int, values: dict[str, Any]) -> None:
    text = f"leader_port: got {port}, takes another one than the key port"
    assert refusal_of(port=port, tensor_parallel=2, **values) == text
    assert plan("tgi", model="org/m", port=port, **values).ports == (port,)


@pytest.mark.parametrize(
    ("option", "key"),
    [
        ("--model-id", "model"),
        ("--hostname=::", "host"),
        ("--port=1", "port"),
        ("-p", "port"),
        ("--num-shard", "tensor_parallel"),
        ("--num_shard", "tensor_parallel"),
        ("--sharded", "tensor_parallel"),
        ("--master-port", "leader_port"),
        ("--shard-uds-path", "working_directory"),
    ],
)
def test_an_option_that_it_sets_is_not_repeated(option: str, key: str) -> None:
    shown = option.partition("=")[0].replace("_", "-")
    text = f"got {shown}, which the key {key} sets: use {key}"
    assert refusal_of(args=[option]) == f"args: {text}"
    with pytest.raises(InvalidSpec) as refusal:
        plan("tgi", model="org/m", configured_args=(option,))
    assert refusal.value.text == f"args of the configuration: {text}"


def test_sockets_whose_path_would_be_too_long_lie_elsewhere() -> None:
    # 107 bytes with `-65535` behind it (unix(7))
    fits = "/" + "ä" * 45 + "x"
    made = [plan("tgi", model="org/m", working_directory=folder) for folder in (fits, fits + "x")]
    assert [one.processes[0].argv[-1] for one in made] == [f"{fits}/tgi-3000", "/tmp/llmgw-tgi-3000"]


def test_more_gpus_than_it_takes_are_a_warning() -> None:
    sizes = "tensor_parallel 2 x pipeline_parallel 1 x data_parallel 1"
    made = plan("tgi", model="org/m", tensor_parallel=2, gpus=["0", "1", "9"])
    assert made.warnings == (
        f"gpus: 3 named, but {sizes} on 1 node takes 2",
        "gpus: 9 not among the GPUs of this node (0, 1, 2, 3, 4, 5, 6, 7)",
    )


def test_a_port_where_its_gpus_meet_and_that_anybody_may_get_is_warned_of() -> None:
    values: dict[str, Any] = {"model": "m", "leader_port": 40_000}
    made = [plan("tgi", **values, tensor_parallel=size).warnings for size in (1, 2)]
    kernel = "one of those that the kernel gives to anybody (32768 to 60999, net.ipv4.ip_local_port_range)"
    assert made == [(), (f"leader_port: 40000 is {kernel}",)]
