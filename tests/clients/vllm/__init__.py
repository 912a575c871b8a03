"""A stand-in for ``vllm``: an engine that says prompts backwards, and fails on some."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any


class AsyncEngineArgs:
    def __init__(self, *, model: str, max_model_len: int = 1000) -> None:
        self.max_model_len = max_model_len


class SamplingParams:
    def __init__(
        self, max_tokens: int = 16, temperature: float = 1.0, stop: list[str] | None = None
    ) -> None:
        self.max_tokens = max_tokens


class PoolingParams:
    def __init__(self, task: str) -> None:
        self.task = task


class AsyncLLMEngine:
    def __init__(self, options: AsyncEngineArgs) -> None:
        self._options = options

    @classmethod
    def from_engine_args(cls, options: AsyncEngineArgs) -> AsyncLLMEngine:
        asyncio.get_running_loop()  # it belongs to one
        return cls(options)

    async def generate(self, prompt: Any, params: SamplingParams, name: str) -> AsyncIterator[Any]:
        await asyncio.sleep(0.01)
        tokens = list(prompt.encode()) if isinstance(prompt, str) else prompt["prompt_token_ids"]
        if len(tokens) > self._options.max_model_len:
            raise ValueError(f"a prompt of {len(tokens)} tokens is too long")
        made = tokens[::-1][: params.max_tokens]
        for end in range(1, len(made) + 1):
            text = "".join(map(chr, made[:end]))
            out = SimpleNamespace(text=text, token_ids=made[:end], finish_reason="length")
            said = prompt if isinstance(prompt, str) else None
            yield SimpleNamespace(prompt=said, prompt_token_ids=tokens, outputs=[out], metrics=None)

    async def encode(self, prompt: Any, params: PoolingParams, name: str) -> AsyncIterator[Any]:
        tokens = list(prompt.encode()) if isinstance(prompt, str) else prompt["prompt_token_ids"]
        outputs = SimpleNamespace(data=[float(len(tokens)), float(len(params.task))])
        yield SimpleNamespace(prompt_token_ids=tokens, outputs=outputs)
