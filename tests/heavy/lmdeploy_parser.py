"""A program that has LMDeploy itself read command lines, and prints what it makes of them.

Standard input: a list of command lines of `lmdeploy`, as JSON. Last line of the output: `spellings`, those of
each option that it has, and `answers`, for each command line what its options became, or why it was refused.
No engine is started.
"""

import contextlib
import io
import json
import sys

from lmdeploy.cli.cli import CLI  # type: ignore[import-not-found]
from lmdeploy.cli.serve import SubCliServe  # type: ignore[import-not-found]

OPTIONS = (
    "command",
    "model_path",
    "model_name",
    "server_name",
    "server_port",
    "tp",
    "dp",
    "ep",
    "cp",
    "backend",
    "distributed_executor_backend",
    "nnodes",
    "node_rank",
    "dist_init_addr",
)


def main() -> None:
    # As lmdeploy/cli/entrypoint.py does.
    CLI.add_parsers()
    SubCliServe.add_parsers()
    (commands,) = (action for action in SubCliServe.parser._actions if action.choices)
    spellings = [action.option_strings for action in commands.choices["api_server"]._actions]
    answers = [answer(argv) for argv in json.load(sys.stdin)]
    print(json.dumps({"spellings": spellings, "answers": answers}))


def answer(argv: list[str]) -> dict[str, object]:
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            arguments = CLI.parser.parse_args(argv[1:])
    except SystemExit:
        return {"refused": said.getvalue().strip().splitlines()[-1]}
    return {
        "runs": getattr(arguments.run, "__name__", ""),
        **{name: getattr(arguments, name) for name in OPTIONS},
    }


main()
