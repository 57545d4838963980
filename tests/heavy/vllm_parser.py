"""A program that has vLLM itself read command lines, and prints what it makes of them. It starts no engine.

usage: vllm_parser.py MODEL

Standard input: a list of command lines of `vllm`, as JSON. Last line of the output: `spellings`, those of
each option that it has, and `answers`: of each command line, what its options became and how its ranks lie,
or why it was refused. MODEL: the directory of a model, of which the configuration is enough; it takes the
place of the one that is named.
"""

import argparse
import contextlib
import io
import json
import sys
from typing import Any

from vllm.engine.arg_utils import AsyncEngineArgs  # type: ignore[import-not-found]
from vllm.entrypoints.cli.serve import ServeSubcommand  # type: ignore[import-not-found]
from vllm.utils.argparse_utils import FlexibleArgumentParser  # type: ignore[import-not-found]

OPTIONS = ("model_tag", "served_model_name", "host", "port", "headless")
LAYOUT = (
    "tensor_parallel_size",
    "pipeline_parallel_size",
    "data_parallel_size",
    "distributed_executor_backend",
    "nnodes",
    "node_rank",
    "nnodes_within_dp",
    "node_rank_within_dp",
    "local_world_size",
    "master_addr",
    "master_port",
    "data_parallel_rank",
    "data_parallel_size_local",
    "data_parallel_external_lb",
    "data_parallel_hybrid_lb",
    "data_parallel_master_ip",
    "data_parallel_rpc_port",
)


def main() -> None:
    (model,) = sys.argv[1:]
    # As vllm/entrypoints/cli/main.py does.
    parser = FlexibleArgumentParser(description="vLLM CLI")
    command = ServeSubcommand()
    serve = command.subparser_init(parser.add_subparsers(required=False, dest="subparser"))
    answers = [answer(parser, command, argv, model) for argv in json.load(sys.stdin)]
    # Public would be the text of its help alone.
    spellings = [action.option_strings for action in serve._actions]
    print(json.dumps({"spellings": spellings, "answers": answers}))


def answer(parser: Any, command: Any, argv: list[str], model: str) -> dict[str, object]:
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            arguments = parser.parse_args(argv[1:])
        command.validate(arguments)
        return {
            "options": {name: getattr(arguments, name) for name in OPTIONS},
            "layout": layout(arguments, model),
        }
    except SystemExit:
        return {"refused": said.getvalue().strip().splitlines()[-1]}
    except ValueError as error:
        return {"refused": str(error)}


def layout(arguments: argparse.Namespace, model: str) -> dict[str, object]:
    """What vLLM derives before it looks at any device."""
    arguments.model = model
    arguments.served_model_name = None
    engine = AsyncEngineArgs.from_cli_args(arguments)
    parallel = engine.create_engine_config(headless=arguments.headless).parallel_config
    return {name: getattr(parallel, name) for name in LAYOUT}


main()
