"""Golden plans, one file an engine: `CASES`, by what each is about."""

from collections.abc import Mapping

from tests.engines.golden import command, llama_cpp, lmdeploy, ollama, sglang, tensorrt_llm, tgi, vllm
from tests.engines.specs import Case

GOLDEN: Mapping[str, Mapping[str, Case]] = {
    "vllm": vllm.CASES,
    "sglang": sglang.CASES,
    "llama-cpp": llama_cpp.CASES,
    "tensorrt-llm": tensorrt_llm.CASES,
    "tgi": tgi.CASES,
    "lmdeploy": lmdeploy.CASES,
    "ollama": ollama.CASES,
    "command": command.CASES,
}
