from collections.abc import Mapping

import pytest

from llmgwd.engines.command import Command
from llmgwd.engines.registry import BUILT_IN, Engines
from llmgwd.model.errors import InvalidSpec

NAMES = ("vllm", "sglang", "llama-cpp", "tensorrt-llm", "tgi", "lmdeploy", "ollama", "command")


class Another(Command):
    name = "another"


def refusal(engines: Engines, values: Mapping[str, object]) -> str:
    with pytest.raises(InvalidSpec) as refused:
        engines.asked(values)
    return refused.value.text


def test_each_engine_is_found_by_the_name_that_it_gives_itself() -> None:
    engines = Engines()
    assert (tuple(engines), len(engines)) == (NAMES, len(NAMES))
    assert [engines.asked({"engine": engine.name}) for engine in BUILT_IN] == list(BUILT_IN)


def test_engines_of_others_stand_beside_them() -> None:
    another = Another()
    engines = Engines([another])
    assert (tuple(engines), engines["another"]) == ((*NAMES, "another"), another)


@pytest.mark.parametrize(("engine", "shown"), [("vlm", "'vlm'"), (3, "3"), (["vllm"], "a list")])
def test_an_unknown_engine_is_refused_with_the_names_that_there_are(engine: object, shown: str) -> None:
    assert refusal(Engines(), {"engine": engine}) == (
        f"engine: got {shown}, takes vllm, sglang, llama-cpp, tensorrt-llm, tgi, lmdeploy, ollama or command"
    )
    assert refusal(Engines([Another()]), {"engine": engine}).endswith("ollama, command or another")


def test_a_spec_without_an_engine_is_told_which_there_are() -> None:
    assert refusal(Engines(), {"model": "m"}) == (
        "engine: required, takes vllm, sglang, llama-cpp, tensorrt-llm, tgi, lmdeploy, ollama or command"
    )
