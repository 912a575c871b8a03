"""Models of transformers that tests make themselves: without a network."""

from __future__ import annotations

from pathlib import Path

from helpers.harness import wait_until

# What workers load for such a model, which takes seconds: they can be forked with it.
LARGE = ("torch", "transformers.generation.utils", "transformers.models.gpt2.modeling_gpt2")
TEMPLATE = "{% for one in messages %}<{{ one.role }}>{{ one.content }}{% endfor %}"


def wait_until_loaded() -> None:
    """Wait for a worker of a cluster whose workers are forked with ``LARGE``.

    On a busy machine that takes longer to load than a worker may take to start.
    """
    import ray

    @ray.remote(num_cpus=0, max_retries=0)
    def nothing() -> bool:
        return True

    def has_started() -> bool:
        try:
            return ray.get(nothing.remote())
        except ray.exceptions.RayError:
            return False

    wait_until(has_started, within=300, what="a worker that is forked with transformers")


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
