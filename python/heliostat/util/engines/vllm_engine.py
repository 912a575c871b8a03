"""Models of vLLM, which batches the tokens of all requests."""

from __future__ import annotations

import dataclasses
import importlib
import uuid
from collections.abc import AsyncIterator
from typing import Any

from heliostat.util.engines.engine import Completion, Model, Piece, Sampling

# Fields of a reader's answer that describe it.
_PLACES = ("remote_engine_id", "remote_block_ids", "remote_host", "remote_port")


class VLLMEngine:
    """The engine. Raises ``ImportError`` where vLLM is not installed."""

    def __init__(self, model: Model) -> None:
        try:
            self._vllm: Any = importlib.import_module("vllm")
        except ImportError as error:
            raise ImportError(
                "The engine vLLM is not installed: pip install vllm, or take the engine transformers "
                "(`llm_engine='transformers'` of Serve, TransformersEngineProcessorConfig of datasets)."
            ) from error
        vllm = self._vllm
        arguments = {"model": model.source, **model.options}
        if model.tokenizer:
            arguments["tokenizer"] = model.tokenizer
        self._engine = vllm.AsyncLLMEngine.from_engine_args(vllm.AsyncEngineArgs(**arguments))
        # vLLM brings it.
        transformers: Any = importlib.import_module("transformers")
        named = arguments.get("tokenizer", model.source)
        self._tokenizer = transformers.AutoTokenizer.from_pretrained(named)

    async def check(self) -> None:
        """Raises when the engine has ended."""
        await self._engine.check_health()

    def conversation(self, messages: list[dict[str, Any]]) -> str:
        """By the tokenizer's template."""
        text: str = self._tokenizer.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=True
        )
        return text

    async def prefill(self, prompt: str) -> Any:
        """Read a text; where the connector of ``kv_transfer_config`` finds what is known of it."""
        asked = {"do_remote_decode": True, "do_remote_prefill": False} | dict.fromkeys(_PLACES)
        parameters = self._vllm.SamplingParams(
            max_tokens=1, extra_args={"kv_transfer_params": asked}
        )
        async for out in self._engine.generate(prompt, parameters, uuid.uuid4().hex):
            last = out
        return last.kv_transfer_params

    async def generate(
        self, prompt: str, sampling: Sampling, read: Any = None
    ) -> AsyncIterator[Piece]:
        """Generate the continuation of a prompt, piece by piece."""
        parameters = self._vllm.SamplingParams(
            max_tokens=sampling.max_tokens,
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            top_k=sampling.top_k or -1,
            seed=sampling.seed,
            stop=list(sampling.stops) or None,
            **({"extra_args": {"kv_transfer_params": read}} if read else {}),
        )
        shown = 0
        # vLLM stops what is not read any more.
        async for out in self._engine.generate(prompt, parameters, uuid.uuid4().hex):
            made = out.outputs[0]
            new, shown = made.text[shown:], len(made.text)
            asked = len(out.prompt_token_ids or ())
            yield Piece(new, asked, len(made.token_ids), made.finish_reason)

    async def complete(self, prompt: str | list[int], params: dict[str, Any]) -> Completion:
        """Complete a prompt, with vLLM's ``SamplingParams``."""
        given = prompt if isinstance(prompt, str) else {"prompt_token_ids": prompt}
        parameters = self._vllm.SamplingParams(**params)
        async for out in self._engine.generate(given, parameters, uuid.uuid4().hex):
            last = out
        made, asked = last.outputs[0], list(last.prompt_token_ids or ())
        told = last.metrics
        return Completion(
            last.prompt or (prompt if isinstance(prompt, str) else ""),
            asked,
            list(made.token_ids),
            made.text,
            metrics=None if told is None else dataclasses.asdict(told),
            finish_reason=made.finish_reason,
        )

    async def pool(self, prompt: str | list[int], task: str, params: dict[str, Any]) -> Completion:
        """Return the result of the model's pooler for a prompt, with vLLM's ``PoolingParams``."""
        given = prompt if isinstance(prompt, str) else {"prompt_token_ids": prompt}
        parameters = self._vllm.PoolingParams(**{"task": task, **params})
        async for out in self._engine.encode(given, parameters, uuid.uuid4().hex):
            last = out
        vectors = last.outputs.data
        vectors = vectors.float().cpu().numpy() if hasattr(vectors, "cpu") else vectors
        said = prompt if isinstance(prompt, str) else ""
        return Completion(said, list(last.prompt_token_ids or ()), vectors=vectors)

    async def transcribe(self, *_: Any) -> tuple[str, float]:
        """Raises ``ValueError``: recordings are read by models of speech."""
        raise ValueError(
            "Recordings are not passed to vLLM: serve the model with llm_engine='transformers'."
        )

    async def embed(self, texts: list[str]) -> tuple[list[list[float]], int]:
        """Return the embeddings that the model's pooler makes."""
        vectors, tokens = [], 0
        for text in texts:
            parameters = self._vllm.PoolingParams()
            async for out in self._engine.encode(text, parameters, uuid.uuid4().hex):
                last = out
            vectors.append([float(number) for number in last.outputs.data])
            tokens += len(last.prompt_token_ids or ())
        return vectors, tokens
