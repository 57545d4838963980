"""Options that a spec may not repeat: the builder sets them, and of two equal ones engines take the last."""

from collections.abc import Iterable, Mapping

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
        meant = _meant(option, keys) if argparse and option not in keys else option
        if meant not in keys:
            continue
        if keys[meant] == ALWAYS_SET:
            raise InvalidSpec(f"{where}: got {option}, which is always set: leave it out")
        raise InvalidSpec(f"{where}: got {option}, which the key {keys[meant]} sets: use {keys[meant]}")


def _option(argument: str) -> str:
    """The option of an argument, as the engine reads it: without `=value`, long ones with `-` for `_`."""
    option = argument.partition("=")[0]
    return option.replace("_", "-") if option.startswith("--") else option


def _meant(option: str, keys: Iterable[str]) -> str:
    """Which of `keys` argparse makes of an option that is none of them, or the option itself."""
    if not option.startswith("-") or option in ("-", "--"):
        return option
    if len(option) > 2 and option[2:].isdigit():
        return option[:2]
    return next((key for key in keys if key.startswith(option)), option)
