"""Writes models with random weights in llama.cpp's file format, of any size, with the standard library alone.

Sources: ggml's docs/gguf.md (the file), llama.cpp's src/llama-arch.cpp (names of keys and tensors).
"""

import random
import struct
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import BinaryIO, Final

VERSION: Final = 3
ALIGNMENT: Final = 32
F32: Final = 0
# What a value is, and what a token is.
UINT32, INT32, FLOAT32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
NORMAL, UNKNOWN, CONTROL, BYTE = 1, 2, 3, 6

SPACE: Final = "\u2581"
SYLLABLES: Final = tuple(consonant + vowel for consonant in "bdfghklmnprstvwyz" for vowel in "aeiou")
TEMPLATE: Final = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant:"

# A prime number of weights is what is repeated: so no two rows of a tensor are the same.
WEIGHTS: Final = 65_521
DEVIATION: Final = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A model's size: about `layers * 10 * width²` weights of 4 bytes, and `2 * width` for each token.

    What takes llama-server long to load is a vocabulary: a second for every 100,000 `more_tokens`.
    """

    layers: int = 2
    width: int = 64
    heads: int = 4
    context: int = 2048
    more_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Tensor:
    """Random weights, but zeros in the first `silent` rows; of no rows at all: one row of ones."""

    name: str
    columns: int
    rows: int = 0
    silent: int = 0

    @property
    def size(self) -> int:
        """In bytes, without what fills it up to the alignment."""
        return 4 * self.columns * max(self.rows, 1)


def write(path: Path, shape: Shape | None = None, *, seed: int = 0) -> None:
    """A model that loads, runs, and talks nonsense. The same arguments give the same file."""
    shape = shape or Shape()
    tokens = _vocabulary(shape)
    tensors = _tensors(shape, tokens)
    values = list(_values(shape, tokens))
    randomness = random.Random(seed)
    noise = array("f", (randomness.gauss(0, DEVIATION) for _ in range(WEIGHTS))).tobytes()
    with path.open("wb") as file:
        file.write(b"GGUF" + struct.pack("<IQQ", VERSION, len(tensors), len(values)))
        file.writelines(values)
        offset = 0
        for tensor in tensors:
            file.write(_description(tensor, offset))
            offset += tensor.size + _filling(tensor.size)
        file.write(bytes(_filling(file.tell())))
        for tensor in tensors:
            start = 4 * randomness.randrange(WEIGHTS)
            _write_weights(file, tensor, noise[start:] + noise[:start])
            file.write(bytes(_filling(tensor.size)))


def _vocabulary(shape: Shape) -> list[tuple[str, int]]:
    """Text and kind of each token. Any text at all is a row of bytes, of which the engine knows the names."""
    return [
        ("<unk>", UNKNOWN),
        ("<s>", CONTROL),
        ("</s>", CONTROL),
        *((f"<0x{byte:02X}>", BYTE) for byte in range(256)),
        *((space + syllable, NORMAL) for space in ("", SPACE) for syllable in SYLLABLES),
        *((f"{SPACE}w{number}", NORMAL) for number in range(shape.more_tokens)),
    ]


def _tensors(shape: Shape, tokens: Sequence[tuple[str, int]]) -> list[Tensor]:
    width, inner = shape.width, 2 * shape.width
    # It never says what ends a text, or prints nothing: their logits are 0, the likeliest are above.
    silent = sum(kind != NORMAL for _, kind in tokens)
    tensors = [
        Tensor("token_embd.weight", width, len(tokens)),
        Tensor("output_norm.weight", width),
        Tensor("output.weight", width, len(tokens), silent),
    ]
    for layer in range(shape.layers):
        tensors += [
            Tensor(f"blk.{layer}.attn_norm.weight", width),
            Tensor(f"blk.{layer}.attn_q.weight", width, width),
            Tensor(f"blk.{layer}.attn_k.weight", width, width),
            Tensor(f"blk.{layer}.attn_v.weight", width, width),
            Tensor(f"blk.{layer}.attn_output.weight", width, width),
            Tensor(f"blk.{layer}.ffn_norm.weight", width),
            Tensor(f"blk.{layer}.ffn_gate.weight", width, inner),
            Tensor(f"blk.{layer}.ffn_up.weight", width, inner),
            Tensor(f"blk.{layer}.ffn_down.weight", inner, width),
        ]
    return tensors


def _values(shape: Shape, tokens: Sequence[tuple[str, int]]) -> Iterator[bytes]:
    """Each key with what it says: what the file is, the model's numbers, the tokenizer."""
    yield _text("general.architecture", "llama")
    yield _text("general.name", "random weights")
    yield _number("general.file_type", F32)

    yield _number("llama.context_length", shape.context)
    yield _number("llama.embedding_length", shape.width)
    yield _number("llama.block_count", shape.layers)
    yield _number("llama.feed_forward_length", 2 * shape.width)
    yield _number("llama.attention.head_count", shape.heads)
    yield _number("llama.attention.head_count_kv", shape.heads)
    yield _number("llama.rope.dimension_count", shape.width // shape.heads)
    yield _number("llama.vocab_size", len(tokens))
    yield _key("llama.attention.layer_norm_rms_epsilon", FLOAT32) + struct.pack("<f", 1e-5)

    yield _text("tokenizer.ggml.model", "llama")
    yield _text("tokenizer.ggml.pre", "default")
    yield _text("tokenizer.chat_template", TEMPLATE)
    yield _number("tokenizer.ggml.unknown_token_id", 0)
    yield _number("tokenizer.ggml.bos_token_id", 1)
    yield _number("tokenizer.ggml.eos_token_id", 2)
    yield _key("tokenizer.ggml.add_bos_token", BOOL) + struct.pack("<?", True)
    yield _key("tokenizer.ggml.add_space_prefix", BOOL) + struct.pack("<?", False)
    count = len(tokens)
    yield _list("tokenizer.ggml.tokens", STRING, count) + b"".join(_string(text) for text, _ in tokens)
    yield (
        _list("tokenizer.ggml.token_type", INT32, count) + array("i", (kind for _, kind in tokens)).tobytes()
    )
    yield _list("tokenizer.ggml.scores", FLOAT32, count) + array("f", range(0, -count, -1)).tobytes()


def _description(tensor: Tensor, offset: int) -> bytes:
    dimensions = (tensor.columns, tensor.rows) if tensor.rows else (tensor.columns,)
    shape = struct.pack(f"<I{len(dimensions)}Q", len(dimensions), *dimensions)
    return _string(tensor.name) + shape + struct.pack("<IQ", F32, offset)


def _write_weights(file: BinaryIO, tensor: Tensor, noise: bytes) -> None:
    if not tensor.rows:
        file.write(array("f", repeat(1.0, tensor.columns)).tobytes())
        return
    silence = bytes(4 * tensor.columns * tensor.silent)
    file.write(silence)
    times, rest = divmod(tensor.size - len(silence), len(noise))
    file.writelines(repeat(noise, times))
    file.write(noise[:rest])


def _number(key: str, number: int) -> bytes:
    return _key(key, UINT32) + struct.pack("<I", number)


def _text(key: str, text: str) -> bytes:
    return _key(key, STRING) + _string(text)


def _list(key: str, kind: int, count: int) -> bytes:
    return _key(key, ARRAY) + struct.pack("<IQ", kind, count)


def _key(key: str, kind: int) -> bytes:
    return _string(key) + struct.pack("<I", kind)


def _string(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack("<Q", len(encoded)) + encoded


def _filling(size: int) -> int:
    return -size % ALIGNMENT
