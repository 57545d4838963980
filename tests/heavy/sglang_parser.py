"""A program that has SGLang itself read command lines, and prints what it makes of them.

Standard input: a list of command lines of `sglang`, as JSON. Last line of the output: `spellings`, those of
each option that it has, and `answers`, for each command line what its options became and which ports it would
take for DP attention, or why it was refused. No engine is started.
"""

import argparse
import contextlib
import dataclasses
import io
import json
import sys
from urllib.parse import urlsplit

from sglang.srt.server_args import (  # type: ignore[import-not-found]
    PortArgs,
    ServerArgs,
    prepare_server_args,
)

ENTRIES = (["serve"], ["-m", "sglang.launch_server"])
OPTIONS = (
    "model_path",
    "served_model_name",
    "host",
    "port",
    "tp_size",
    "pp_size",
    "dp_size",
    "attn_dp_size",
    "enable_dp_attention",
    "nnodes",
    "node_rank",
    "dist_init_addr",
    "enable_metrics",
)


def main() -> None:
    parser = argparse.ArgumentParser()
    ServerArgs.add_cli_args(parser)
    spellings = [action.option_strings for action in parser._actions]
    answers = [answer(argv) for argv in json.load(sys.stdin)]
    print(json.dumps({"spellings": spellings, "answers": answers}))


def answer(argv: list[str]) -> dict[str, object]:
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            arguments = prepare_server_args(options_of(argv))
    except SystemExit:
        return {"refused": said.getvalue().strip().splitlines()[-1]}
    options = {name: getattr(arguments, name) for name in OPTIONS}
    return {**options, "ports": attention_ports(arguments)}


def options_of(argv: list[str]) -> list[str]:
    """Both entries hand what comes after them to the same parser (cli/serve.py, launch_server.py)."""
    (entry,) = (entry for entry in ENTRIES if argv[1 : 1 + len(entry)] == entry)
    return argv[1 + len(entry) :]


def attention_ports(arguments: ServerArgs) -> list[int]:
    """Of a record as it was read: the old option for DP attention is looked at later, with the model."""
    endpoints = dataclasses.asdict(PortArgs.init_new(arguments)).values()
    ports = (urlsplit(end).port for end in endpoints if isinstance(end, str) and end.startswith("tcp://"))
    return sorted(port for port in ports if port is not None)


main()
