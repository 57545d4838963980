"""The command line `llmgwctl`: what can be typed. Imports little, so that it answers at once."""

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence

from llmgwd.cli import exits
from llmgwd.cli.leftover import refuse_leftover
from llmgwd.cli.spec_arguments import add_spec_arguments, settle_id, split_at_dashes

Adds = Callable[[argparse.ArgumentParser], None]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and give its exit status."""
    try:
        status = _run(sys.argv[1:] if argv is None else argv)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return exits.INTERRUPTED
    except BrokenPipeError:
        _write_no_more()
        return exits.NOBODY_READS
    except OSError as error:
        _write_no_more()
        print(f"llmgwctl: cannot write: {error.strerror or error}", file=sys.stderr)
        return exits.FAILED
    return status


def _write_no_more() -> None:
    """Python flushes once more at its end, and would complain about the same file."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Read the arguments; ends the program with status 2 where they are wrong."""
    words = [word for word in argv if not word.startswith("-")]
    has_spec = bool(words) and words[0] in {"start", "plan"}
    before, after = split_at_dashes(argv) if has_spec else (argv, None)
    arguments, leftover = make_parser().parse_known_args(before)
    if leftover:
        refuse_leftover(arguments, leftover)
    if has_spec:
        arguments.after_dashes = after
        settle_id(arguments.parser, arguments)
    return arguments


def _run(argv: Sequence[str]) -> int:
    arguments = parse(argv)
    from llmgwd.cli.session import run  # noqa: PLC0415  (asyncio and the bus: 80 ms that --help can do without)

    return run(arguments)


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="llmgwctl",
        description="Start, watch and stop the inference engines of this machine.",
        epilog=_STATUSES,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version")
    parser.add_argument("--user", action="store_true", help="talk to `llmgwd --user` on the session bus")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, text, *adds in _COMMANDS:
        description = _MORE.get(name, text)
        command = commands.add_parser(name, help=text, description=description, allow_abbrev=False)
        command.set_defaults(parser=command)
        command.add_argument("--user", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
        for add in adds:
            add(command)
    return parser


class _Version(argparse.Action):
    """Looks it up only when it is asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object, **__: object) -> None:
        from importlib.metadata import version  # noqa: PLC0415  (30 ms)

        print(f"llmgwctl {version('llmgwd')}")
        parser.exit()


def _id(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID")


def _optional_id(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", nargs="?", help="with it the exit status is 3 unless it is ready")


def _unit(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("unit", metavar="UNIT", help="one that `orphans` lists")


def _json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="for programs")


def _start_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--wait", action="store_true", help="until it is ready, or has failed")


def _stop_arguments(parser: argparse.ArgumentParser) -> None:
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("ids", metavar="ID", nargs="*", default=[])
    which.add_argument("--all", action="store_true", help="every shard of this node")
    parser.add_argument("--drain", type=float, metavar="SECONDS", help="let it finish its work for so long")
    parser.add_argument("--timeout", type=float, metavar="SECONDS", help="kill it after so long")
    parser.add_argument("--no-wait", action="store_true", help="return when the stop has begun")


def _wait_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--for",
        default="ready",
        type=_state,
        dest="state",
        metavar="STATE",
        help="ready (the default), stopped, …",
    )
    parser.add_argument("--timeout", type=_seconds, metavar="S", help="give up after so many seconds")


def _log_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-n",
        "--lines",
        type=_count,
        metavar="N",
        help="so many of the last lines (512, or what `log_lines` says; with -f 10)",
    )
    parser.add_argument("-f", "--follow", action="store_true", help="go on with what it prints from now on")


def _state(word: str) -> str:
    from llmgwd.model.lifecycle import State  # noqa: PLC0415  (only one command needs it)

    if word not in set(State):
        raise argparse.ArgumentTypeError(f"{word!r} is not one of {', '.join(State)}")
    return word


def _seconds(word: str) -> float:
    seconds = float(word)
    if not 0 <= seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{word} is not a time")
    return seconds


def _count(word: str) -> int:
    count = int(word)
    if not 0 <= count < 1 << 32:
        raise argparse.ArgumentTypeError(f"{word} is not a number of lines")
    return count


_COMMANDS: Sequence[tuple[str, str, *tuple[Adds, ...]]] = (
    ("start", "Start a shard.", add_spec_arguments, _start_arguments),
    ("plan", "Show what a start would run.", add_spec_arguments, _json),
    ("stop", "Stop shards, and wait until they have ended.", _stop_arguments),
    ("drain", "Let a shard take no new work.", _id),
    ("status", "Show a shard, or all of them.", _optional_id, _json),
    ("list", "List all shards.", _json),
    ("wait", "Wait until a shard is in a state.", _id, _wait_arguments),
    ("logs", "Show what a shard printed.", _id, _log_arguments, _json),
    ("remove", "Forget a shard that has ended.", _id),
    ("node", "Show this node.", _json),
    ("events", "Show each change of state or health as it comes.", _json),
    ("orphans", "List scopes that no record describes.", _json),
    ("kill-orphan", "End what runs in such a scope.", _unit),
    ("reload", "Let the daemon read its configuration again."),
)

_MORE: Mapping[str, str] = {
    "logs": "Show what a shard's engine and sidecars printed in its present run, or in its last one when it "
    "has ended. With -f lines of later runs follow, and nothing ends it but an interrupt.",
    "kill-orphan": "End what runs in such a scope: SIGTERM first, SIGKILL for what is left. "
    "Returns when that has begun.",
}
_STATUSES = (
    "Exit status: 0 done; 1 refused or failed; 2 wrong usage; 3 `status ID` of a shard that is not ready; "
    "4 no such shard; 5 the daemon cannot be reached."
)

if __name__ == "__main__":
    sys.exit(main())
