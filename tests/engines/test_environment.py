import pytest

from llmgwd.engines.environment import environment_of, visible_gpus
from tests.engines.specs import AMD, NVIDIA, spec


@pytest.mark.parametrize("vendor", ["nvidia", "amd", ""])
def test_gpus_that_nobody_named_are_left_to_the_engine(vendor: str) -> None:
    assert visible_gpus(None, vendor) == {}


@pytest.mark.parametrize("vendor", ["nvidia", ""])
def test_gpus_are_numbered_as_on_the_bus(vendor: str) -> None:
    expected = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "3,1"}
    assert visible_gpus(("3", "1"), vendor) == expected


def test_both_names_of_the_same_thing_agree_on_rocm() -> None:
    expected = {"HIP_VISIBLE_DEVICES": "3,1", "CUDA_VISIBLE_DEVICES": "3,1"}
    assert visible_gpus(("3", "1"), "amd") == expected


def test_uuids_are_for_the_layer_below_hip_which_then_counts_from_0() -> None:
    assert visible_gpus(("GPU-9f", "GPU-01"), "amd") == {
        "ROCR_VISIBLE_DEVICES": "GPU-9f,GPU-01",
        "HIP_VISIBLE_DEVICES": "0,1",
        "CUDA_VISIBLE_DEVICES": "0,1",
    }


def test_no_gpu_at_all_hides_them_from_every_layer() -> None:
    hidden = {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": ""}
    assert visible_gpus((), "nvidia") == hidden
    assert visible_gpus((), "") == hidden
    assert visible_gpus((), "amd") == hidden | {"ROCR_VISIBLE_DEVICES": ""}


def test_the_spec_wins_over_the_configuration_and_that_over_what_is_computed() -> None:
    shard = spec("command", command=["a"], gpus=["0"], environment={"A": "spec", "B": "spec"})
    configured = {"B": "configured", "C": "configured", "CUDA_VISIBLE_DEVICES": "9"}
    assert environment_of(shard, NVIDIA, configured, C="computed", D="computed") == {
        "A": "spec",
        "B": "spec",
        "C": "configured",
        "D": "computed",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": "9",
    }


def test_the_vendor_is_the_nodes() -> None:
    shard = spec("command", command=["a"], gpus=["0"])
    assert environment_of(shard, AMD, {}) == {"HIP_VISIBLE_DEVICES": "0", "CUDA_VISIBLE_DEVICES": "0"}
