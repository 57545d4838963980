import pytest

from llmgwd.engines.options import ALWAYS_SET, check_args, given, refuse_repeated
from llmgwd.model.errors import InvalidSpec

KEYS = {
    "--port": "port",
    "--served-model-name": "served_model_name",
    "-tp": "tensor_parallel",
    "-n": "nodes",
    "--metrics": ALWAYS_SET,
}


def refusal_of(*args: str, argparse: bool) -> str:
    with pytest.raises(InvalidSpec) as refusal:
        refuse_repeated(args, KEYS, argparse=argparse)
    return refusal.value.text


@pytest.mark.parametrize("argparse", [True, False])
@pytest.mark.parametrize(
    ("argument", "option"),
    [
        ("--port", "--port"),
        ("--port=8001", "--port"),
        ("--served_model_name", "--served-model-name"),
        ("--served_model-name=a_b", "--served-model-name"),
        ("-tp", "-tp"),
        ("-tp=2", "-tp"),
    ],
)
def test_an_option_is_known_in_every_spelling(argument: str, option: str, argparse: bool) -> None:
    key = KEYS[option]
    text = f"args: got {option}, which the key {key} sets: use {key}"
    assert refusal_of("--other", argument, argparse=argparse) == text


@pytest.mark.parametrize(
    ("argument", "option", "key"),
    [
        ("--por", "--por", "port"),
        ("--po=1", "--po", "port"),
        ("--served_m", "--served-m", "served_model_name"),
        ("-t", "-t", "tensor_parallel"),
        ("-n2", "-n2", "nodes"),
    ],
)
def test_argparse_takes_a_beginning_for_the_whole(argument: str, option: str, key: str) -> None:
    text = f"args: got {option}, which the key {key} sets: use {key}"
    assert refusal_of(argument, argparse=True) == text
    refuse_repeated([argument], KEYS, argparse=False)


def test_a_value_is_never_shown() -> None:
    assert "secret" not in refusal_of("--port=secret", argparse=True)


def test_an_option_without_a_key_is_to_be_left_out() -> None:
    assert refusal_of("--metrics", argparse=False) == "args: got --metrics, which is always set: leave it out"


@pytest.mark.parametrize("argparse", [True, False])
def test_everything_else_passes(argparse: bool) -> None:
    others = [
        "",
        "-",
        "--",
        "port",
        "--ports",
        "--port-range=1",
        "-tpx",
        "-1",
        "-10",
        "8001",
        "a=--port",
        "-x2",
    ]
    refuse_repeated(others, KEYS, argparse=argparse)


@pytest.mark.parametrize(
    ("configured", "own", "text"),
    [
        (["--port=1"], ["-n2"], "args of the configuration: got --port, which the key port sets: use port"),
        (["--other"], ["-n2"], "args: got -n2, which the key nodes sets: use nodes"),
        (["--metrics"], [], "args of the configuration: got --metrics, which is always set: leave it out"),
    ],
)
def test_configured_arguments_come_first_and_are_held_to_the_same(
    configured: list[str], own: list[str], text: str
) -> None:
    with pytest.raises(InvalidSpec) as refusal:
        check_args(configured, own, KEYS, argparse=True)
    assert refusal.value.text == text


def test_arguments_that_repeat_nothing_pass() -> None:
    check_args(["--other"], ["-n2"], KEYS, argparse=False)


@pytest.mark.parametrize(
    ("args", "found"),
    [
        ([], {}),
        (["--backends", "x", "pytorch", "-b", "--", "-"], {}),
        (["--backend", "pytorch"], {"--backend": "pytorch"}),
        (["--backend=py=torch", "x"], {"--backend": "py=torch"}),
        (["--back", "pytorch"], {"--backend": "pytorch"}),
        (["--attn_dp_size", "2"], {"--attn-dp-size": "2"}),
        (["--backend", "a", "--backend=b"], {"--backend": "b"}),
        (["--backend", "--attn-dp"], {"--backend": "--attn-dp", "--attn-dp-size": ""}),
        (["--backend=", "x"], {"--backend": ""}),
    ],
)
def test_an_option_is_found_as_argparse_reads_it(args: list[str], found: dict[str, str]) -> None:
    assert given(args, ("--backend", "--attn-dp-size")) == found


def test_an_option_is_itself_before_it_is_the_beginning_of_another() -> None:
    assert given(["--tp", "2"], ("--tp-size", "--tp")) == {"--tp": "2"}
