"""The models with random weights, read back as the format says."""

import math
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

from tests.real.gguf import BOOL, FLOAT32, INT32, STRING, UINT32, Shape, write

SMALL = Shape(layers=1, width=8, heads=2, context=16)
FORMATS = {UINT32: "<I", INT32: "<i", FLOAT32: "<f", BOOL: "<?"}


def unpack(file: BinaryIO, layout: str) -> tuple[int, ...]:
    return struct.unpack(layout, file.read(struct.calcsize(layout)))


def text(file: BinaryIO) -> str:
    (length,) = unpack(file, "<Q")
    return file.read(length).decode()


def value(file: BinaryIO, kind: int) -> object:
    if kind == STRING:
        return text(file)
    if kind in FORMATS:
        return unpack(file, FORMATS[kind])[0]
    kind, count = unpack(file, "<IQ")
    return [value(file, kind) for _ in range(count)]


def read(path: Path) -> tuple[dict[str, object], dict[str, tuple[float, ...]]]:
    """The keys, and the weights of each tensor."""
    with path.open("rb") as file:
        assert file.read(4) == b"GGUF"
        version, tensors, keys = unpack(file, "<IQQ")
        assert version == 3
        values = {text(file): value(file, *unpack(file, "<I")) for _ in range(keys)}
        described = {}
        for _ in range(tensors):
            name = text(file)
            (dimensions,) = unpack(file, "<I")
            count = math.prod(unpack(file, f"<{dimensions}Q"))
            kind, offset = unpack(file, "<IQ")
            assert (kind, offset % 32) == (0, 0)
            described[name] = (count, offset)
        start = -(-file.tell() // 32) * 32
        weights: dict[str, tuple[float, ...]] = {}
        for name, (count, offset) in described.items():
            file.seek(start + offset)
            weights[name] = unpack(file, f"<{count}f")
    return values, weights


def sizes(weights: Mapping[str, tuple[float, ...]]) -> dict[str, int]:
    return {name: len(numbers) for name, numbers in weights.items()}


def test_a_model_has_every_tensor_of_its_shape(tmp_path: Path) -> None:
    write(tmp_path / "model", SMALL)
    values, weights = read(tmp_path / "model")
    tokens = values["tokenizer.ggml.tokens"]
    assert isinstance(tokens, list)
    assert sizes(weights) == {
        "token_embd.weight": 8 * len(tokens),
        "output_norm.weight": 8,
        "output.weight": 8 * len(tokens),
        "blk.0.attn_norm.weight": 8,
        "blk.0.attn_q.weight": 8 * 8,
        "blk.0.attn_k.weight": 8 * 8,
        "blk.0.attn_v.weight": 8 * 8,
        "blk.0.attn_output.weight": 8 * 8,
        "blk.0.ffn_norm.weight": 8,
        "blk.0.ffn_gate.weight": 8 * 16,
        "blk.0.ffn_up.weight": 8 * 16,
        "blk.0.ffn_down.weight": 16 * 8,
    }


def test_a_model_says_its_numbers(tmp_path: Path) -> None:
    write(tmp_path / "model", SMALL)
    values, _ = read(tmp_path / "model")
    numbers = {key: number for key, number in values.items() if key.startswith("llama.")}
    assert numbers == {
        "llama.context_length": 16,
        "llama.embedding_length": 8,
        "llama.block_count": 1,
        "llama.feed_forward_length": 16,
        "llama.attention.head_count": 2,
        "llama.attention.head_count_kv": 2,
        "llama.rope.dimension_count": 4,
        "llama.vocab_size": 429,
        "llama.attention.layer_norm_rms_epsilon": struct.unpack("<f", struct.pack("<f", 1e-5))[0],
    }


def test_every_token_has_a_kind_and_a_score(tmp_path: Path) -> None:
    write(tmp_path / "model", Shape(width=8, heads=2, more_tokens=3))
    values, _ = read(tmp_path / "model")
    tokens, kinds, scores = (values[f"tokenizer.ggml.{of}"] for of in ("tokens", "token_type", "scores"))
    assert isinstance(tokens, list)
    assert isinstance(kinds, list)
    assert isinstance(scores, list)
    assert (len(tokens), len(set(tokens)), len(kinds), len(scores)) == (432, 432, 432, 432)
    assert tokens[-3:] == ["\u2581w0", "\u2581w1", "\u2581w2"]
    assert (kinds[:3], set(kinds[3:259]), set(kinds[259:])) == ([2, 3, 3], {6}, {1})


def test_what_prints_nothing_is_never_the_likeliest(tmp_path: Path) -> None:
    write(tmp_path / "model", SMALL)
    _, weights = read(tmp_path / "model")
    silent, spoken = weights["output.weight"][: 8 * 259], weights["output.weight"][8 * 259 :]
    rows = {spoken[at : at + 8] for at in range(0, len(spoken), 8)}
    assert (set(silent), len(rows)) == ({0.0}, 429 - 259)


def test_norms_are_ones(tmp_path: Path) -> None:
    write(tmp_path / "model", SMALL)
    _, weights = read(tmp_path / "model")
    norms = ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm")
    assert {number for norm in norms for number in weights[f"{norm}.weight"]} == {1.0}


def test_the_same_seed_gives_the_same_file_and_another_does_not(tmp_path: Path) -> None:
    for name, seed in (("one", 1), ("same", 1), ("other", 2)):
        write(tmp_path / name, SMALL, seed=seed)
    one, same, other = ((tmp_path / name).read_bytes() for name in ("one", "same", "other"))
    assert (one == same, one == other, len(one) == len(other)) == (True, False, True)
