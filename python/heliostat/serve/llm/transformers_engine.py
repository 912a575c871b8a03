"""Models of the library transformers, one answer after the other: for small models, and for CPUs.

A thread makes tokens, one at a time; the event loop of the replica hears of each.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

from heliostat.core.extras import required
from heliostat.serve.llm.config import LLMConfig
from heliostat.serve.llm.engine import Piece, Sampling, Stops


class TransformersEngine:
    """The engine."""

    def __init__(self, config: LLMConfig) -> None:
        loaded = required("transformers", "Models of transformers")
        self._torch = required("torch", "Models of transformers")
        source = config.model_loading_config.tokenizer_source or config.source
        self._tokenizer = loaded.AutoTokenizer.from_pretrained(source)
        self._model = loaded.AutoModelForCausalLM.from_pretrained(
            config.source, **config.engine_kwargs
        ).eval()
        if self._torch.cuda.is_available():
            self._model.to("cuda")
        limit = getattr(self._model.config, "max_position_embeddings", None)
        self._tokens_max = int(limit or 1 << 20)
        self._thread = concurrent.futures.ThreadPoolExecutor(1, "generate")

    async def check(self) -> None:
        """Nothing can happen to it that would not end the process."""

    def conversation(self, messages: list[dict[str, Any]]) -> str:
        """By the tokenizer's template; without one, a line for each message."""
        if self._tokenizer.chat_template:
            text: str = self._tokenizer.apply_chat_template(
                messages, tokenize=False, add_generation_prompt=True
            )
            return text
        lines = [f"{one['role']}: {one['content']}\n" for one in messages]
        return "".join([*lines, "assistant:"])

    def _encoded(self, text: str) -> list[int]:
        tokens: list[int] = self._tokenizer.encode(text)
        if not tokens:
            raise ValueError("The text has no tokens: write something.")
        if len(tokens) >= self._tokens_max:
            raise ValueError(
                f"The text has {len(tokens)} tokens, and the model takes {self._tokens_max} with its answer."
            )
        return tokens

    async def generate(self, prompt: str, sampling: Sampling) -> AsyncIterator[Piece]:
        """How a text goes on."""
        tokens = self._encoded(prompt)
        loop = asyncio.get_running_loop()
        came: asyncio.Queue[Piece | BaseException | None] = asyncio.Queue()
        is_over = threading.Event()

        def tell(piece: Piece | BaseException | None) -> None:
            loop.call_soon_threadsafe(came.put_nowait, piece)

        def run() -> None:
            last: BaseException | None = None
            try:
                self._run(tokens, sampling, tell, is_over.is_set)
            except BaseException as error:
                last = error
            tell(last)

        work = self._thread.submit(run)
        try:
            while (piece := await came.get()) is not None:
                if isinstance(piece, BaseException):
                    raise piece
                yield piece
        finally:
            is_over.set()
            work.cancel()

    def _run(
        self,
        prompt: list[int],
        sampling: Sampling,
        tell: Callable[[Piece], None],
        is_over: Callable[[], bool],
    ) -> None:
        torch, ids = self._torch, self._torch.tensor([prompt], device=self._model.device)
        answer = _Answer(self._tokenizer, self._ends(), len(prompt), sampling, tell)
        room = self._tokens_max - len(prompt)
        drawn: dict[str, Any] = {"do_sample": False}
        if sampling.temperature:
            drawn = {
                "do_sample": True,
                "temperature": sampling.temperature,
                "top_p": sampling.top_p,
                "top_k": sampling.top_k,
            }
        if sampling.seed is not None:
            torch.manual_seed(sampling.seed)

        def is_enough(ids: Any, _: Any, **_more: Any) -> Any:
            found = answer.is_over or is_over()
            return torch.full((ids.shape[0],), found, dtype=torch.bool, device=ids.device)

        self._model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=min(room, sampling.max_tokens or room),
            pad_token_id=self._tokenizer.eos_token_id,
            streamer=answer,
            stopping_criteria=[is_enough],
            **drawn,
        )
        if not is_over():
            answer.finish()

    def _ends(self) -> set[int]:
        given = self._model.generation_config.eos_token_id
        several = given if isinstance(given, list) else [given]
        return {one for one in (*several, self._tokenizer.eos_token_id) if one is not None}

    async def embed(self, texts: list[str]) -> tuple[list[list[float]], int]:
        """The mean of the last layer over a text's tokens, of length 1."""
        several = [self._encoded(text) for text in texts]
        loop = asyncio.get_running_loop()
        vectors = await loop.run_in_executor(self._thread, self._vectors, several)
        return vectors, sum(map(len, several))

    def _vectors(self, several: list[list[int]]) -> list[list[float]]:
        vectors = []
        for tokens in several:
            with self._torch.inference_mode():
                ids = self._torch.tensor([tokens], device=self._model.device)
                layers = self._model(input_ids=ids, output_hidden_states=True).hidden_states
                mean = layers[-1][0].float().mean(0)
                vectors.append((mean / mean.norm()).tolist())
        return vectors


class _Answer:
    """Takes tokens as transformers makes them, and tells of them as text."""

    def __init__(
        self,
        tokenizer: Any,
        ends: set[int],
        asked: int,
        sampling: Sampling,
        tell: Callable[[Piece], None],
    ) -> None:
        self._tokenizer, self._ends, self._asked, self._tell = tokenizer, ends, asked, tell
        self._stops = Stops(sampling.stops)
        self._made: list[int] = []
        self._shown = 0
        self._has_begun = False
        self._reason = "length"
        self.is_over = False

    def put(self, tokens: Any) -> None:
        """The prompt first, then a token at a time."""
        if not self._has_begun:
            self._has_begun = True
            return
        [token] = tokens.reshape(-1).tolist()
        if token in self._ends:
            self.is_over, self._reason = True, "stop"
            return
        self._made.append(token)
        text = self._tokenizer.decode(self._made, skip_special_tokens=True)
        # Half of a character is shown once it is whole.
        new = "" if text.endswith("\ufffd") else text[self._shown :]
        self._shown += len(new)
        ready = self._stops.take(new)
        if self._stops.was_met:
            self.is_over, self._reason = True, "stop"
        self._tell(Piece(ready, self._asked, len(self._made)))

    def end(self) -> None:
        """There will be no more."""

    def finish(self) -> None:
        """Tell what was kept back, and why it has ended."""
        rest = ""
        if not self._stops.was_met:
            text = self._tokenizer.decode(self._made, skip_special_tokens=True)
            rest = self._stops.take(text[self._shown :], is_last=True)
        self._tell(Piece(rest, self._asked, len(self._made), self._reason))
