"""The environment of a planned process, in layers: computed, configured, and what the spec says."""

from collections.abc import Mapping

from llmgwd.engines.facts import NodeFacts, find_gpu
from llmgwd.model.addresses import is_unusable, parsed
from llmgwd.model.spec import ShardSpec


def layered(
    spec: ShardSpec, configured: Mapping[str, str], *computed: Mapping[str, str]
) -> Mapping[str, str]:
    """Each layer wins over those before it: `computed` in their order, then `configured`, then the spec."""
    layers = (*computed, configured, spec.environment)
    return {name: value for layer in layers for name, value in layer.items()}


def between_nodes(spec: ShardSpec, facts: NodeFacts) -> dict[str, str]:
    """How NCCL, Gloo and TensorPipe reach the other nodes: by the interface of the management address.

    Empty for a shard that is alone, or where that is not known. NCCL takes a name for the beginning of one,
    unless `=` stands before it; Gloo and TensorPipe take names as they are (NCCL's user guide, environment
    variables; PyTorch, torch.distributed).
    """
    if spec.nodes == 1 or is_unusable(facts.management_address):
        return {}
    variables = {}
    if family := _family(facts.management_address):
        variables["NCCL_SOCKET_FAMILY"] = family
    if facts.management_interface:
        variables |= {
            "NCCL_SOCKET_IFNAME": f"={facts.management_interface}",
            "GLOO_SOCKET_IFNAME": facts.management_interface,
            "TP_SOCKET_IFNAME": facts.management_interface,
        }
    if facts.nccl_ib_gid_index >= 0:
        variables["NCCL_IB_GID_INDEX"] = str(facts.nccl_ib_gid_index)
    return variables


def own_address(spec: ShardSpec, facts: NodeFacts, variable: str) -> dict[str, str]:
    """`variable`, by which an engine that spans nodes is told this node's own address, on every node."""
    if spec.nodes == 1 or is_unusable(facts.management_address):
        return {}
    return {variable: facts.management_address}


def visible_gpus(spec: ShardSpec, facts: NodeFacts, *, indices: bool = False) -> dict[str, str]:
    """The variables that show a process the spec's GPUs alone; an empty list hides all of them.

    `indices`: for engines that take no UUID; one that this node does not know stays as it is.
    """
    if spec.gpus is None:
        return {}
    vendor = facts.gpu_vendor
    if not spec.gpus:
        hidden = {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": ""}
        # HIP takes an empty list for none (ROCclr, Device::init); ROCr below it obeys one. Not for everybody:
        # Ray refuses to run where this variable is set.
        return hidden | {"ROCR_VISIBLE_DEVICES": ""} if vendor == "amd" else hidden
    gpus = tuple(_index(gpu, facts) for gpu in spec.gpus) if indices else spec.gpus
    if vendor == "amd":
        return _visible_to_rocm(gpus)
    # CUDA's own order is the fastest first; indices are meant as nvidia-smi numbers them.
    return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": ",".join(gpus)}


def _index(gpu: str, facts: NodeFacts) -> str:
    known = find_gpu(gpu, facts.gpus)
    return str(known.index) if known else gpu


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


def _family(address: str) -> str:
    """Empty for a name, which may lead to either."""
    known = parsed(address)
    if known is None:
        return ""
    return "AF_INET6" if known.version == 6 else "AF_INET"
