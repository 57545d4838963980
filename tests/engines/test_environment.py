from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from llmgwd.engines.environment import between_nodes, layered, own_address, visible_gpus
from llmgwd.engines.facts import NodeFacts
from llmgwd.model.spec import ShardSpec
from tests.engines.specs import AMD, LEADER, LEADER6, NO_GPU, NOWHERE, NVIDIA, WORKER, WORKER6, spec

PAIR = {"nodes": 2, "rank": 0, "leader_address": "10.0.0.1", "leader_port": 29500}
LOOPBACK = replace(LEADER, management_address="127.0.0.1", management_interface="lo")


def shard(**values: Any) -> ShardSpec:
    return spec("command", command=["a"], **values)


def test_the_spec_wins_over_the_configuration_and_that_over_what_is_computed() -> None:
    made = layered(
        shard(environment={"A": "spec", "B": "spec"}),
        {"B": "configured", "C": "configured"},
        {"C": "first", "D": "first", "E": "first"},
        {"A": "second", "E": "second"},
    )
    assert made == {"A": "spec", "B": "spec", "C": "configured", "D": "first", "E": "second"}


def test_without_anything_the_environment_is_empty() -> None:
    assert layered(shard(), {}) == {}


@pytest.mark.parametrize("facts", [NVIDIA, AMD, NO_GPU])
def test_gpus_that_nobody_named_are_left_to_the_engine(facts: NodeFacts) -> None:
    assert visible_gpus(shard(), facts) == {}


@pytest.mark.parametrize("facts", [NVIDIA, NO_GPU])
def test_gpus_are_numbered_as_on_the_bus(facts: NodeFacts) -> None:
    expected = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "3,GPU-1"}
    assert visible_gpus(shard(gpus=["3", "GPU-1"]), facts) == expected


@pytest.mark.parametrize(
    ("facts", "numbered"),
    [
        (NVIDIA, "3,1,GPU-x"),
        (replace(NVIDIA, gpus=NVIDIA.gpus[::-1]), "3,1,GPU-x"),
        (replace(NVIDIA, gpus=(replace(NVIDIA.gpus[5], uuid="GPU-1f3c"),)), "3,5,GPU-x"),
        (replace(NVIDIA, gpus=tuple(replace(gpu, uuid="GPU-1f3c") for gpu in NVIDIA.gpus)), "3,GPU-1,GPU-x"),
        (NO_GPU, "3,GPU-1,GPU-x"),
    ],
)
def test_a_uuid_becomes_an_index_where_the_engine_needs_one_and_the_node_knows_it(
    facts: NodeFacts, numbered: str
) -> None:
    made = visible_gpus(shard(gpus=["3", "GPU-1", "GPU-x"]), facts, indices=True)
    assert made == {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": numbered}


@pytest.mark.parametrize(("gpus", "indices"), [(["3", "1"], False), (["GPU-3", "1"], True)])
def test_both_names_of_the_same_thing_agree_on_rocm(gpus: list[str], indices: bool) -> None:
    expected = {"HIP_VISIBLE_DEVICES": "3,1", "CUDA_VISIBLE_DEVICES": "3,1"}
    assert visible_gpus(shard(gpus=gpus), AMD, indices=indices) == expected


def test_uuids_are_for_the_layer_below_hip_which_then_counts_from_0() -> None:
    assert visible_gpus(shard(gpus=["GPU-9f", "7"]), AMD) == {
        "ROCR_VISIBLE_DEVICES": "GPU-9f,7",
        "HIP_VISIBLE_DEVICES": "0,1",
        "CUDA_VISIBLE_DEVICES": "0,1",
    }


def test_no_gpu_at_all_hides_them_from_every_layer() -> None:
    hidden = {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": ""}
    made = [visible_gpus(shard(gpus=[]), facts, indices=True) for facts in (NVIDIA, NO_GPU, AMD)]
    assert made == [hidden, hidden, hidden | {"ROCR_VISIBLE_DEVICES": ""}]


def by(interface: str, family: str, **more: str) -> Mapping[str, str]:
    return {
        "NCCL_SOCKET_FAMILY": family,
        "NCCL_SOCKET_IFNAME": f"={interface}",
        "GLOO_SOCKET_IFNAME": interface,
        "TP_SOCKET_IFNAME": interface,
        **more,
    }


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize(
    ("facts", "variables"),
    [
        (LEADER, by("eth0", "AF_INET", NCCL_IB_GID_INDEX="3")),
        (WORKER, by("bond0.12", "AF_INET", NCCL_IB_GID_INDEX="3")),
        (replace(WORKER, nccl_ib_gid_index=0), by("bond0.12", "AF_INET", NCCL_IB_GID_INDEX="0")),
        (LEADER6, by("eth0", "AF_INET6")),
        (WORKER6, by("bond0.12", "AF_INET6")),
        (replace(WORKER6, management_address="fe80::2%bond0.12"), by("bond0.12", "AF_INET6")),
        (
            replace(LEADER, management_interface=""),
            {"NCCL_SOCKET_FAMILY": "AF_INET", "NCCL_IB_GID_INDEX": "3"},
        ),
        (
            replace(LEADER6, management_address="node-1"),
            {
                "NCCL_SOCKET_IFNAME": "=eth0",
                "GLOO_SOCKET_IFNAME": "eth0",
                "TP_SOCKET_IFNAME": "eth0",
            },
        ),
        (NOWHERE, {}),
        (LOOPBACK, {}),
    ],
)
def test_every_rank_is_told_its_own_way_to_the_others(
    facts: NodeFacts, variables: Mapping[str, str], rank: int
) -> None:
    assert between_nodes(shard(**{**PAIR, "rank": rank}), facts) == variables


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize(
    ("facts", "variables"),
    [
        (LEADER, {"VLLM_HOST_IP": "10.0.0.1"}),
        (WORKER, {"VLLM_HOST_IP": "10.0.0.2"}),
        (WORKER6, {"VLLM_HOST_IP": "fd00::2"}),
        (NOWHERE, {}),
        (LOOPBACK, {}),
    ],
)
def test_every_rank_is_told_its_own_address(
    facts: NodeFacts, variables: Mapping[str, str], rank: int
) -> None:
    assert own_address(shard(**{**PAIR, "rank": rank}), facts, "VLLM_HOST_IP") == variables


def test_a_shard_that_is_alone_is_told_nothing_of_networks() -> None:
    alone = shard(leader_address="10.0.0.1", leader_port=29500)
    assert between_nodes(alone, LEADER) == {}
    assert own_address(alone, LEADER, "VLLM_HOST_IP") == {}
