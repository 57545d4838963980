"""The `vllm serve` of a leader whose ranks are Ray's, for the want of GPUs: it runs no model, and all else.

As vLLM does it joins the cluster of RAY_ADDRESS, puts an actor on each node, which starts a process of its
own, and serves HTTP when all of them run. Needs Ray.
"""

import argparse
import json
import signal
import subprocess
import sys
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import ray  # type: ignore[import-not-found]
from ray.util.placement_group import placement_group  # type: ignore[import-not-found]

WORKER = ["/usr/bin/python3", "-IS", "-c", "import signal; signal.signal(15, signal.SIG_IGN); signal.pause()"]


class Rank:
    """What vLLM calls a worker: in a process of Ray's."""

    def __init__(self) -> None:
        self.child = subprocess.Popen(WORKER)

    def node(self) -> str:
        return str(ray.util.get_node_ip_address())


class Face(BaseHTTPRequestHandler):
    def __init__(self, served: str, *rest: object) -> None:
        self.served = served
        super().__init__(*rest)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        models = {"object": "list", "data": [{"id": self.served, "object": "model"}]}
        body = json.dumps(models if self.path == "/v1/models" else {}).encode()
        self.send_response(200 if self.path in {"/health", "/v1/models"} else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("subcommand", choices=["serve"])
    parser.add_argument("model")
    parser.add_argument("--served-model-name", required=True)
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--distributed-executor-backend", choices=["ray"], required=True)
    parser.add_argument("--tensor-parallel-size", type=int, default=1)
    parser.add_argument("--pipeline-parallel-size", type=int, default=1)
    flags = parser.parse_args()
    # By RAY_ADDRESS alone, and not to be found in any other way.
    ray.init(log_to_driver=False)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    size = flags.tensor_parallel_size * flags.pipeline_parallel_size
    group = placement_group([{"CPU": 1}] * size, strategy="STRICT_SPREAD")
    ray.get(group.ready())
    rank = ray.remote(num_cpus=1)(Rank)
    ranks = [
        rank.options(placement_group=group, placement_group_bundle_index=index).remote()
        for index in range(size)
    ]
    print("ranks on", *sorted(ray.get([one.node.remote() for one in ranks])), file=sys.stderr, flush=True)
    with ThreadingHTTPServer((flags.host, flags.port), partial(Face, flags.served_model_name)) as server:
        server.serve_forever()


if __name__ == "__main__":
    main()
