"""A program that writes a Llama with random weights, and a tokenizer that knows bytes alone.

usage: tiny_model.py DIRECTORY

Needs torch, transformers and tokenizers. vLLM's attention on CPU takes heads of a few sizes only, of which 64
is one; with two of them, two ranks have one each.
"""

import sys
from typing import Final

import torch  # type: ignore[import-not-found]
from tokenizers import Tokenizer, decoders, models, pre_tokenizers  # type: ignore[import-not-found]
from transformers import (  # type: ignore[import-not-found]
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
)

HEADS: Final = 2
HEAD: Final = 64
TOKENS: Final = 512


def main() -> None:
    (directory,) = sys.argv[1:]
    vocabulary = write_tokenizer(directory)
    write_weights(directory, vocabulary)


def write_tokenizer(directory: str) -> int:
    """How many tokens it knows: three of its own, and every byte."""
    words = ["<unk>", "<s>", "</s>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    bytes_alone = models.BPE(
        vocab={word: number for number, word in enumerate(words)}, merges=[], unk_token="<unk>"
    )
    tokenizer = Tokenizer(bytes_alone)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        unk_token="<unk>",
        bos_token="<s>",
        eos_token="</s>",
        model_max_length=TOKENS,
    )
    fast.save_pretrained(directory)
    return len(words)


def write_weights(directory: str, vocabulary: int) -> None:
    torch.manual_seed(0)
    model = LlamaForCausalLM(
        LlamaConfig(
            # Divided by the ranks; what is beyond the vocabulary is never said.
            vocab_size=-(-vocabulary // 64) * 64,
            hidden_size=HEADS * HEAD,
            intermediate_size=2 * HEADS * HEAD,
            num_hidden_layers=2,
            num_attention_heads=HEADS,
            num_key_value_heads=HEADS,
            head_dim=HEAD,
            max_position_embeddings=TOKENS,
            bos_token_id=1,
            eos_token_id=2,
            tie_word_embeddings=False,
        )
    )
    model.to(torch.float32).save_pretrained(directory)


main()
