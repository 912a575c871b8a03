"""Models of transformers that tests make themselves: without a network."""

from __future__ import annotations

from pathlib import Path

TEMPLATE = "{% for one in messages %}<{{ one.role }}>{{ one.content }}{% endfor %}"


def make(folder: Path, template: str | None = None) -> str:
    """The folder of a GPT-2 of two layers, with the bytes of UTF-8 as its tokens."""
    import tokenizers
    import torch
    import transformers

    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    words = {text: number for number, text in enumerate([*alphabet, "<end>"])}
    made = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=words, merges=[]))
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<end>")
    tokenizer.chat_template = template
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=len(words),
        n_positions=128,
        n_embd=32,
        n_layer=2,
        n_head=2,
        eos_token_id=words["<end>"],
        bos_token_id=words["<end>"],
    )
    transformers.GPT2LMHeadModel(config).save_pretrained(folder)
    return str(folder)
