import pytest

from llmgwd.engines.registry import ENGINES, find
from llmgwd.model.errors import InvalidSpec
from llmgwd.model.spec import ENGINE_NAMES


def test_each_engine_is_found_by_the_name_that_it_gives_itself() -> None:
    assert {name: engine.name for name, engine in ENGINES.items()} == {name: name for name in ENGINES}
    assert all(find(name) is engine for name, engine in ENGINES.items())


def test_every_engine_is_one_that_specs_may_name() -> None:
    assert set(ENGINES) <= set(ENGINE_NAMES)


@pytest.mark.parametrize("name", sorted(set(ENGINE_NAMES) - set(ENGINES)))
def test_an_engine_without_a_builder_is_refused_as_not_there_yet(name: str) -> None:
    with pytest.raises(InvalidSpec) as refusal:
        find(name)
    assert str(refusal.value) == f"InvalidSpec: engine: {name} is not supported yet by this version"


def test_an_unknown_engine_is_refused_with_the_names_that_there_are() -> None:
    with pytest.raises(InvalidSpec) as refusal:
        find("vlm")
    assert str(refusal.value) == (
        "InvalidSpec: engine: got 'vlm', takes vllm, sglang, llama-cpp, tensorrt-llm, tgi, lmdeploy, "
        "ollama or command"
    )
