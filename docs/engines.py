"""Writes docs/engines.md from what each builder says of its engine: `python -m docs.engines`."""

from collections.abc import Sequence
from pathlib import Path

from docs.tables import table
from llmgwd.engines.engine import Engine
from llmgwd.engines.registry import BUILT_IN

PAGE = Path(__file__).with_suffix(".md")

INTRODUCTION = """\
<!-- Made by `python -m docs.engines` from docs/engines.py and llmgwd/engines/: change those, not this. -->

# Engines

What llmgwd runs for a spec, and what it knows of each engine. `llmgwctl plan ID …` takes what `start` takes
and shows the command lines and variables that would be used on this node, without running anything.
"""

ONE = """\
## What is known of each

*Requests*: the gauges of `/metrics` that tell how many requests run or wait. *Key*: where the engine takes
the API key that clients must show; prefer the variable, in a file of `environment_files`: everybody on the
machine can read arguments.
"""

OVER_NODES = """\
## Several nodes

A replica over nodes is one shard on each, with the same `replica_id`, `nodes`, `leader_address` and
`leader_port`, the same model and sizes, and its own `rank`. Rank 0 is the leader, and serves; of the others
none does, but where it is said below.

They may be started in any order. Ray's workers, and llama.cpp's rank 0, wait at their gate for as long as
`rendezvous_timeout_s`; their `Reason` says for whom, and a stop ends it at once. The others wait inside of
the engine, in the state `loading`, for as long as the engine and `ready_timeout_s` allow.

llmgwd on one node does not know of the others. When a rank has ended, stop the rest, and start all of them
again; when all is well, stop rank 0 first.

### vllm

With `executor` mp (the default) each node runs `vllm serve`, the others `--headless`. With `data_parallel`
that `nodes` divides, each node holds whole copies, and `data_parallel_balancing` says whether rank 0 serves
for all (internal), each node for its own (hybrid), or each rank for itself (external, `data_parallel` equals
`nodes`). With one rank a node, hybrid and external are for mixtures of experts only (vLLM 0.32); with both,
each node has an endpoint, between which somebody has to balance. Where copies span nodes and there are
several, `leader_port` + 1 is used, too. Give `leader_address` as an address: a name may mean 127.0.1.1 to the
leader itself.

With `executor` ray, rank 0 runs a Ray head and then the server, the others a Ray worker, which waits for the
leader's port; `args` are the server's. Each replica is a Ray cluster of its own, side by side with others;
its logs are below `ray-HASH` in the working directory, and nobody deletes them. A worker is `ready` when it
has stayed alive, which may be before it has joined: it is rank 0 that counts. Where `/dev/shm` has less than
30 % of the memory, Ray says so and is slow. A variable that is configured for the leader alone
(`NCCL_IB_HCA`, say) reaches the other nodes, too: set such ones on every node. Ray asks for no password:
whoever reaches `leader_port` can run code as the engine's user. No `data_parallel`.

### sglang

Each node runs the same. The others answer `/health`, and nothing else: that is how they become ready. The
nodes must get whole stages of the pipeline, or a stage whole nodes; the engine's own check lets more pass,
and hangs. With DP attention (`--attn-dp-size` in `args`, since 0.5.22) the ports `leader_port` to + 6 must be
free on every node, and + 13 on the leader's. A `served_model_name` holds no `:`. Before 0.5.5 there was no
program `sglang`: set `executable` to its Python.

### llama-cpp

The others run `ggml-rpc-server` (before June 2026 `rpc-server`), which lies beside `llama-server`, on
`leader_port`. Rank 0 names its `peers` and waits for them: `peers = ["10.0.0.2"]`, or `"10.0.0.2:50052"`
where one listens elsewhere than on `leader_port`. The others read neither `peers` nor `model`, so that the
model has to be on the leader's node alone, and one file of keys does for all. `args` are those of each rank's
own program: give them on the command line. Those that are configured are llama-server's.

All nodes need the same build: llama-server leaves out a peer that speaks another version, without a word. Nor
does it see that a peer has gone, or is a new one: it stays ready, and aborts at the next request. A worker
that cannot have its address or port ends with status 0 and says nothing: see what listens there (`ss -ltnp`).
It knows neither IPv6 nor authentication: for trusted networks only, and nobody else may reach its port.
Layers are shared over all devices, whatever `pipeline_parallel` says; tensors cannot be (`tensor_parallel`).

### lmdeploy

With `executor` mp (the default) TurboMind, each node runs the same, and each opens `port`, where the others
are only alive. With ray its PyTorch engine: rank 0 runs a Ray head and then the server, the others a Ray
worker, which waits for the leader's port. No IPv6. `data_parallel` over nodes is refused, and with `--backend
pytorch` also on one node: its ranks heed neither `gpus` nor `host`.

### tensorrt-llm

Rank 0 runs `mpirun`, which starts the rest over ssh on its `peers` (names or IPv4 addresses, without ports).
Those are in no scope of llmgwd, which neither sees nor stops them; no shard is started for another rank. Its
user needs ssh to the others without a password. They get what `environment` sets, but not what is computed
here or comes from `environment_files`. No argument may have a blank in it.

### tgi, ollama

One node only. With `tensor_parallel` above 1 TGI meets at `leader_port`, 29500 where none is given: give each
shard of a node its own. Its `host` is an IP address. Ollama keeps its model loaded (`OLLAMA_KEEP_ALIVE=-1`);
with `gpus` it does not look for others by Vulkan (`OLLAMA_VULKAN=0`).

### command

What `command` and `sidecars` of each rank say. What says `waits_for_leader` waits for the leader's port.
"""

ADDRESSES = """\
## Addresses and variables

A node calls itself by its *management address*: the configured one, or the one that the default route uses.
`llmgwctl node` shows it, the interface that holds it, and what looks wrong. A plan over nodes warns where no
interface holds it, and where the node of rank 0 does not hold `leader_address`, or that of another rank does.
Of a name none of this is known.

Addresses are written whole and bare: IPv4 as four numbers, IPv6 without brackets. Only `peers` may carry a
port, and an IPv6 address brackets then.

In a replica over nodes every rank that llmgwd starts, the leader's no less, gets those variables that its
engine can use:

| variable | value |
| --- | --- |
| `VLLM_HOST_IP`, `SGLANG_HOST_IP` | the node's own address (for these engines) |
| `NCCL_SOCKET_IFNAME` | `=NAME` of its interface: without `=` NCCL takes it for the beginning of a name |
| `GLOO_SOCKET_IFNAME`, `TP_SOCKET_IFNAME` | the name as it is |
| `NCCL_SOCKET_FAMILY` | `AF_INET` or `AF_INET6`, as the address is |
| `NCCL_IB_GID_INDEX` | with RoCE: the index of the RoCE v2 entry with an IPv4 address, see below |
| `RAY_ADDRESS`, `RAY_TMPDIR` | where an engine could start or join a Ray: the replica's own |

`gpus` become `CUDA_VISIBLE_DEVICES` with `CUDA_DEVICE_ORDER=PCI_BUS_ID`, or `HIP_VISIBLE_DEVICES` and the
same `CUDA_VISIBLE_DEVICES` with AMD's. UUIDs become indices for engines that take none. An empty list hides
all.

Whatever is computed, the engine's configured `environment` wins over it, and the spec's over both. With Ray,
per-node variables are those of `ray start`, from which the processes on the GPUs come: Ray hands the
environment of the leader's engine on to other nodes, where it would be wrong. So what is configured on the
leader's node alone gets to nodes that have none of it: configure such a variable on each.

### The GID index

RoCE needs one, InfiniBand none. NCCL 2.21 (2024) and newer finds it by itself, and NVIDIA says to leave the
variable alone then; older ones take index 0, which works hardly anywhere. So it is set where it is certain:
each active RoCE port of the node has a RoCE v2 entry with an IPv4 address (of the management network, if
there is one) at the same index. Where they disagree none is set, and `llmgwctl node` says so.
`nccl_ib_gid_index = "off"` in `[agent]` leaves it to NCCL; a number sets that one.

## Ports

Choose `leader_port` outside of what the kernel gives to anybody (`net.ipv4.ip_local_port_range`), and with
Ray outside of 10002 to 19999, where its workers listen: inside it may be taken when it is needed, so that is
a warning, in the plan and in the journal. Engines over nodes also use ports of that range between each other:
a firewall between the nodes of a replica must let all of them through (llama.cpp needs `leader_port` alone).
"""


def page() -> str:
    return "\n".join((INTRODUCTION, ONE, _traits(BUILT_IN), OVER_NODES, ADDRESSES))


def _traits(engines: Sequence[Engine]) -> str:
    heads = ("engine", "runs", "port", "health", "while it loads", "requests", "key")
    return table(
        heads,
        (
            (
                _code(engine.name),
                _code(engine.traits.executable) or "what the spec says",
                str(engine.traits.port or ""),
                _code(engine.traits.health_path),
                engine.traits.while_loading if engine.traits.health_path else "",
                _listed(*engine.traits.requests),
                ", ".join(
                    filter(None, map(_code, (engine.traits.api_key_variable, engine.traits.api_key_option)))
                ),
            )
            for engine in engines
        ),
    )


def _listed(*words: str) -> str:
    return ", ".join(_code(word) for word in words if word)


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
