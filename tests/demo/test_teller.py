"""How the story is printed where it is piped."""

import io

import pytest

from tests.demo.teller import Teller


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """One of 40 columns, without colours."""
    for name, value in {"COLUMNS": "40", "LINES": "24", "TERM": "xterm", "NO_COLOR": "1"}.items():
        monkeypatch.setenv(name, value)
    return Terminal()


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


def test_no_line_of_a_command_is_wider_than_the_terminal(terminal: Terminal) -> None:
    teller = Teller(terminal)
    teller.command(["x" * 16, "y" * 15, "z"])  # with the backslash 40 columns
    teller.command(["x" * 16, "y" * 16, "z"])
    assert terminal.getvalue().splitlines() == [
        f"    $ {'x' * 16} {'y' * 15} \\",
        "      z",
        f"    $ {'x' * 16} \\",
        f"      {'y' * 16} z",
    ]


def test_sentences_go_on_in_the_next_line_between_words(terminal: Terminal) -> None:
    teller = Teller(terminal)
    teller.remark("The engine is real, what it writes means nothing.")
    teller.sentence("It is asked for a text, and sends each word as it comes.")
    teller.remark("\nAll of this was so.")
    assert terminal.getvalue() == (
        "The engine is real, what it writes means\nnothing.\n"
        "\n 1. It is asked for a text, and sends\n    each word as it comes.\n"
        "\nAll of this was so.\n"
    )
