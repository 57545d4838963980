"""Options in `args`: which an engine is given there, and which not, as the builder sets them.

Of two equal ones engines take the last.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import zip_longest

from llmgwd.model.errors import InvalidSpec

ALWAYS_SET = ""  # instead of a key, where the builder sets an option that has none


def check_args(
    configured: Iterable[str], own: Iterable[str], keys: Mapping[str, str], *, argparse: bool
) -> None:
    """The configuration's arguments and the spec's; see `refuse_repeated`."""
    refuse_repeated(configured, keys, argparse=argparse, where="args of the configuration")
    refuse_repeated(own, keys, argparse=argparse)


def refuse_repeated(
    args: Iterable[str], keys: Mapping[str, str], *, argparse: bool, where: str = "args"
) -> None:
    """`keys`: each option that is the builder's, in every spelling, and the key of the spec that sets it.

    `argparse`: the engine reads its command line as Python's argparse does, which takes the beginning of an
    option for the whole and `-n2` for `-n 2`.
    Raises InvalidSpec, which names the option and the key to use, never a value: that may be a secret.
    """
    for argument in args:
        option = _option(argument)
        meant = _meant(option, keys) if argparse else option
        if meant not in keys:
            continue
        if keys[meant] == ALWAYS_SET:
            raise InvalidSpec(f"{where}: got {option}, which is always set: leave it out")
        raise InvalidSpec(f"{where}: got {option}, which the key {keys[meant]} sets: use {keys[meant]}")


def given(args: Sequence[str], names: Collection[str]) -> Mapping[str, str]:
    """Those of the options `names` that are in `args` of an engine that reads them as argparse does.

    Each with its value: what stands behind `=`, or else the next argument, if there is one.
    """
    found = {}
    for argument, following in zip_longest(args, args[1:], fillvalue=""):
        meant = _meant(_option(argument), names)
        if meant in names:
            _, equals, value = argument.partition("=")
            found[meant] = value if equals else following
    return found


def _option(argument: str) -> str:
    """The option of an argument, as the engine reads it: without `=value`, long ones with `-` for `_`."""
    option = argument.partition("=")[0]
    return option.replace("_", "-") if option.startswith("--") else option


def _meant(option: str, keys: Collection[str]) -> str:
    """Which of `keys` argparse makes of an option, or the option itself."""
    if option in keys or not option.startswith("-") or option in ("-", "--"):
        return option
    if len(option) > 2 and option[2:].isdigit():
        return option[:2]
    return next((key for key in keys if key.startswith(option)), option)
