"""The environment of a planned process: the computed, over it the configured, over both the spec's own."""

from collections.abc import Mapping

from llmgwd.engines.plan import NodeFacts
from llmgwd.model.spec import ShardSpec


def environment_of(
    spec: ShardSpec, facts: NodeFacts, configured: Mapping[str, str], **computed: str
) -> dict[str, str]:
    """`computed` is what the engine's builder adds. Each layer wins over those before it."""
    return {**visible_gpus(spec.gpus, facts.gpu_vendor), **computed, **configured, **spec.environment}


def visible_gpus(gpus: tuple[str, ...] | None, vendor: str) -> dict[str, str]:
    """The variables that show a process these GPUs alone. None says nothing, an empty list hides all."""
    if gpus is None:
        return {}
    if not gpus:
        hidden = {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": ""}
        # HIP takes an empty list for none (ROCclr, Device::init); ROCr below it obeys one. Not for everybody:
        # Ray refuses to run where this variable is set.
        return hidden | {"ROCR_VISIBLE_DEVICES": ""} if vendor == "amd" else hidden
    if vendor == "amd":
        return _visible_to_rocm(gpus)
    # CUDA's own order is the fastest first; indices are meant as nvidia-smi numbers them.
    return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": ",".join(gpus)}


def _visible_to_rocm(gpus: tuple[str, ...]) -> dict[str, str]:
    """HIP_VISIBLE_DEVICES and CUDA_VISIBLE_DEVICES have to agree (vLLM raises where they don't).

    HIP knows UUIDs only of late, ROCr always did; what ROCr lets through, HIP counts from 0.
    """
    if all(gpu.isdigit() for gpu in gpus):
        indices = ",".join(gpus)
        return {"HIP_VISIBLE_DEVICES": indices, "CUDA_VISIBLE_DEVICES": indices}
    indices = ",".join(str(index) for index, _ in enumerate(gpus))
    return {
        "ROCR_VISIBLE_DEVICES": ",".join(gpus),
        "HIP_VISIBLE_DEVICES": indices,
        "CUDA_VISIBLE_DEVICES": indices,
    }
