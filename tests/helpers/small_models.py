"""Models of transformers that tests make themselves: without a network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.helpers.harness import wait_until

# Modules that workers load for such a model, which takes seconds: they can be forked with them.
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

    wait_until(has_started, what="a worker that is forked with transformers")


def _tokenizer() -> tuple[Any, dict[str, int]]:
    """The bytes of UTF-8 as tokens, and their numbers."""
    import tokenizers
    import transformers

    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    words = {text: number for number, text in enumerate([*alphabet, "<end>"])}
    made = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=words, merges=[]))
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<end>"), words


def make_speech(folder: Path) -> str:
    """The folder of a Whisper of one layer, which says anything."""
    import torch
    import transformers

    tokenizer, words = _tokenizer()
    tokenizer.save_pretrained(folder)
    transformers.WhisperFeatureExtractor(feature_size=8).save_pretrained(folder)
    torch.manual_seed(0)
    end = words["<end>"]
    config = transformers.WhisperConfig(
        vocab_size=len(words),
        num_mel_bins=8,
        d_model=16,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=16,
        decoder_ffn_dim=16,
        max_target_positions=32,
        pad_token_id=end,
        bos_token_id=end,
        eos_token_id=end,
        decoder_start_token_id=end,
        begin_suppress_tokens=None,
        suppress_tokens=None,
    )
    made = transformers.WhisperForConditionalGeneration(config)
    made.generation_config.update(max_new_tokens=8, forced_decoder_ids=None)
    made.save_pretrained(folder)
    return str(folder)


def make(folder: Path, template: str | None = None) -> str:
    """The folder of a GPT-2 of two layers, with the bytes of UTF-8 as its tokens."""
    import torch
    import transformers

    tokenizer, words = _tokenizer()
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
