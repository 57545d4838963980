"""Places: programs that lie beside the engine's, and directories for sockets."""

from dataclasses import replace

import pytest

from llmgwd.engines.places import beside, for_sockets
from tests.engines.specs import spec


@pytest.mark.parametrize(
    ("executable", "program"),
    [("vllm", "ray"), ("/opt/vllm/bin/vllm", "/opt/vllm/bin/ray"), ("/vllm", "/ray")],
)
def test_a_program_lies_beside_the_engines(executable: str, program: str) -> None:
    assert beside(executable, "ray") == program


@pytest.mark.parametrize(
    ("working_directory", "place"),
    [
        ("/srv", "/srv/x"),
        ("/srv/", "/srv/x"),
        ("/" + 94 * "w", "/" + 94 * "w" + "/x"),
        ("/" + 95 * "w", "/tmp/llmgw-x"),
        ("/" + 48 * "ü", "/tmp/llmgw-x"),
    ],
)
def test_a_directory_for_sockets_is_short(working_directory: str, place: str) -> None:
    made = spec("tgi", model="m", working_directory=working_directory)
    assert for_sockets(made, "x", behind=10) == place


def test_without_a_working_directory_there_is_tmp() -> None:
    made = replace(spec("tgi", model="m"), working_directory="")
    assert for_sockets(made, "x", behind=10) == "/tmp/llmgw-x"
