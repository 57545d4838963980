"""How the story is printed where it is piped."""

import io

from tests.demo.teller import Teller


def told(*, of: str) -> str:
    output = io.StringIO()
    teller = Teller(output)
    teller.sentence("It answers.")
    teller.command(["llmgwctl", "start", "demo", "--set", "gpus=[]", *of.split()])
    teller.lines(["demo: ready", "", "x" * 200])
    teller.sentence("It ends.")
    return output.getvalue()


def test_sentences_are_numbered_and_what_shows_them_is_below() -> None:
    assert told(of="--wait") == (
        "\n 1. It answers.\n"
        "    $ llmgwctl start demo --set 'gpus=[]' --wait\n"
        "      demo: ready\n"
        "\n"
        f"      {'x' * 103}…\n"
        "\n 2. It ends.\n"
    )


def test_a_long_command_is_not_cut_but_goes_on_in_the_next_line() -> None:
    lines = told(of="--model " + "m" * 90 + " --wait").splitlines()
    assert lines[2:5] == [
        "    $ llmgwctl start demo --set 'gpus=[]' --model \\",
        f"      {'m' * 90} --wait",
        "      demo: ready",
    ]
