"""llama.cpp: `llama-server` (llama.cpp, tools/server/README.md); on its other nodes see llama_rpc.py."""

from collections.abc import Mapping
from typing import Final

from llmgwd.engines.address import http_of
from llmgwd.engines.engine import Loading, Traits
from llmgwd.engines.environment import layered, visible_gpus
from llmgwd.engines.facts import NodeFacts
from llmgwd.engines.keys import check_has_none
from llmgwd.engines.llama_rpc import endpoints, plan_peer
from llmgwd.engines.options import ALWAYS_SET, check_args
from llmgwd.engines.plan import Plan, Process
from llmgwd.engines.replica import check_leader, warn_of_addresses, warn_of_gpus, warn_of_peers
from llmgwd.model.identifiers import ENGINE
from llmgwd.model.spec import ShardSpec
from llmgwd.model.wording import refuse

OPTIONS: Final[Mapping[str, str]] = {
    "-m": "model",
    "--model": "model",
    "-a": "served_model_name",
    "--alias": "served_model_name",
    "--host": "host",
    "--port": "port",
    "--metrics": ALWAYS_SET,
}
RPC: Final[Mapping[str, str]] = {"--rpc": "peers"}
DEVICE: Final[Mapping[str, str]] = {"-dev": "gpus", "--device": "gpus"}


class LlamaCpp:
    name = "llama-cpp"
    traits = Traits(
        executable="llama-server",
        port=8080,
        health_path="/health",
        while_loading=Loading.UNAVAILABLE,
        requests=("llamacpp:requests_processing", "llamacpp:requests_deferred"),
        api_key_variable="LLAMA_API_KEY",
        api_key_option="--api-key",
    )

    def plan(
        self, spec: ShardSpec, facts: NodeFacts, args: tuple[str, ...], environment: Mapping[str, str]
    ) -> Plan:
        _check(spec)
        if spec.rank > 0:
            return plan_peer(spec, facts, environment)
        peers = endpoints(spec)
        check_args(args, spec.args, _options(spec), argparse=False)
        engine = Process(
            name=ENGINE,
            argv=(spec.executable, *serve(spec, peers), *args, *spec.args),
            environment=layered(spec, environment, visible_gpus(spec, facts), hidden_from_vulkan(spec)),
            working_directory=spec.working_directory,
            # Those that are not there when it looks are left out without a word.
            waits_for=peers,
        )
        return Plan(
            processes=(engine,),
            ports=(spec.port,),
            http=http_of(spec),
            warnings=(
                *warn_of_addresses(spec, facts),
                *warn_of_peers(spec, facts),
                *warn_of_gpus(spec, facts, needed=None),
            ),
        )


def serve(spec: ShardSpec, peers: tuple[str, ...]) -> tuple[str, ...]:
    return (
        "-m", spec.model,
        "--alias", spec.served_model_name,
        "--host", spec.host,
        "--port", str(spec.port),
        *(("--rpc", ",".join(peers)) if peers else ()),
        *split(spec),
        *no_device(spec),
        "--metrics",
    )  # fmt: skip


def split(spec: ShardSpec) -> tuple[str, ...]:
    """It has no numbers: it splits over all the devices that it sees, by layers unless told otherwise."""
    if spec.tensor_parallel > 1:
        return ("--split-mode", "row")
    if spec.pipeline_parallel > 1:
        return ("--split-mode", "layer")
    return ()


def no_device(spec: ShardSpec) -> tuple[str, ...]:
    # The variables that hide GPUs mean nothing to a build for Vulkan. The peers' devices would go as well.
    return ("--device", "none") if spec.gpus == () and spec.nodes == 1 else ()


def hidden_from_vulkan(spec: ShardSpec) -> Mapping[str, str]:
    """An empty list is none of them (ggml-vulkan.cpp, ggml_vk_instance_init)."""
    return {"GGML_VK_VISIBLE_DEVICES": ""} if spec.gpus == () and spec.nodes > 1 else {}


def _options(spec: ShardSpec) -> Mapping[str, str]:
    key = "tensor_parallel" if spec.tensor_parallel > 1 else "pipeline_parallel"
    splits = {"-sm": key, "--split-mode": key} if split(spec) else {}
    return {**OPTIONS, **splits, **(DEVICE if no_device(spec) else {}), **(RPC if spec.nodes > 1 else {})}


def _check(spec: ShardSpec) -> None:
    check_leader(spec)
    check_has_none(spec, "executor", "data_parallel", "data_parallel_balancing")
    if spec.tensor_parallel > 1 and spec.nodes > 1:
        # It would not load: "device RPC0 does not support split buffers".
        raise refuse("tensor_parallel", spec.tensor_parallel, "1 over several nodes: they share by layers")
    if spec.tensor_parallel > 1 and spec.pipeline_parallel > 1:
        raise refuse("pipeline_parallel", spec.pipeline_parallel, "1 where tensor_parallel is more than 1")
    name = spec.served_model_name
    if "," in name or name != name.strip():
        # It takes a list of names and lists the first, without the blanks around it.
        raise refuse("served_model_name", name, "a name without commas and without blanks at its ends")
