"""Models of the library transformers, one answer after the other: for small models, and for CPUs.

A thread makes tokens, one at a time; the event loop of the replica hears of each.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

from heliostat.core.platform.extras import required
from heliostat.util.engines.engine import (
    TOKENS_USUAL,
    Completion,
    Model,
    Piece,
    Sampling,
    Stops,
)

TOGETHER_MAX = 32  # prompts


class TransformersEngine:
    """The engine."""

    def __init__(self, model: Model) -> None:
        loaded = required("transformers", "Models of transformers")
        self._torch = required("torch", "Models of transformers")
        self._tokenizer = loaded.AutoTokenizer.from_pretrained(model.tokenizer or model.source)
        self._model = loaded.AutoModelForCausalLM.from_pretrained(
            model.source, **model.options
        ).eval()
        if self._torch.cuda.is_available():
            self._model.to("cuda")
        named = inspect.signature(self._model.forward).parameters
        self._cached = (
            "cache" if "cache" in named else "past_key_values"
        )  # before transformers 5.24
        limit = getattr(self._model.config, "max_position_embeddings", None)
        self._tokens_max = int(limit or 1 << 20)
        self._thread = concurrent.futures.ThreadPoolExecutor(1, "generate")
        self._lock = threading.Lock()
        self._waiting: list[tuple[list[int], dict[str, Any], Any]] = []

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

    async def prefill(self, prompt: str) -> Any:
        """The keys and values of each layer for all tokens of a text but the last.

        That one makes the first of the answer.
        """
        tokens = self._encoded(prompt)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._read, tokens[:-1])

    def _read(self, tokens: list[int]) -> list[tuple[Any, Any]]:
        if not tokens:
            return []
        with self._torch.inference_mode():
            ids = self._torch.tensor([tokens], device=self._model.device)
            cache = self._model(input_ids=ids, use_cache=True)[self._cached]
        return [
            (_as_array(self._torch, keys), _as_array(self._torch, values))
            for keys, values in _layers(cache)
        ]

    async def generate(
        self, prompt: str, sampling: Sampling, read: Any = None
    ) -> AsyncIterator[Piece]:
        """Yield the pieces of a completion."""
        tokens = self._encoded(prompt)
        loop = asyncio.get_running_loop()
        came: asyncio.Queue[Piece | BaseException | None] = asyncio.Queue()
        is_over = threading.Event()

        def tell(piece: Piece | BaseException | None) -> None:
            loop.call_soon_threadsafe(came.put_nowait, piece)

        def run() -> None:
            last: BaseException | None = None
            try:
                self._run(tokens, sampling, tell, is_over.is_set, read)
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
        read: Any,
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

        if read:
            drawn[self._cached] = self._cache(read, len(prompt) - 1)
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

    def _cache(self, read: list[tuple[Any, Any]], tokens: int) -> Any:
        """The state that another engine has read, for this one. Raises ``ValueError`` for another model's."""
        cache: Any = required("transformers", "Models of transformers").DynamicCache()
        shape = {"device": self._model.device}
        layers = self._model.config.num_hidden_layers
        for number, pair in enumerate(read):
            keys, values = (_as_tensor(self._torch, one).to(**shape) for one in pair)
            if len(read) != layers or keys.shape[-2] != tokens:
                raise ValueError("What was read of the prompt is of another model or text.")
            cache.update(keys, values, number)
        return cache

    def _ends(self) -> set[int]:
        given = self._model.generation_config.eos_token_id
        several = given if isinstance(given, list) else [given]
        return {one for one in (*several, self._tokenizer.eos_token_id) if one is not None}

    async def complete(self, prompt: str | list[int], params: dict[str, Any]) -> Completion:
        """Complete a prompt, with parameters of ``generate`` and vLLM's names of the usual ones.

        Prompts that wait while others are gone on with do so together, where their parameters are the same.
        """
        tokens = self._encoded(prompt) if isinstance(prompt, str) else list(prompt)
        said = prompt if isinstance(prompt, str) else self._tokenizer.decode(tokens)
        done: concurrent.futures.Future[list[int]] = concurrent.futures.Future()
        given = _parameters(params, self._tokens_max - len(tokens))
        stops = Stops(given.pop("stop"))
        with self._lock:
            self._waiting.append((tokens, given, done))
        self._thread.submit(self._complete_some)
        made = await asyncio.wrap_future(done)
        ends = self._ends()
        is_over = bool(made) and made[-1] in ends
        text = self._tokenizer.decode(made, skip_special_tokens=True)
        text = stops.take(text, is_last=True)
        reason = "stop" if is_over or stops.was_met else "length"
        return Completion(said, tokens, made, text, finish_reason=reason)

    async def pool(self, prompt: str | list[int], task: str, params: dict[str, Any]) -> Completion:
        """The mean of the last layer over a prompt's tokens, of length 1.

        Raises:
            ValueError: The task is another than "embed".
        """
        if task != "embed":
            raise ValueError(f"The engine transformers knows no task {task!r}: it has 'embed'.")
        tokens = self._encoded(prompt) if isinstance(prompt, str) else list(prompt)
        loop = asyncio.get_running_loop()
        (vector,) = await loop.run_in_executor(self._thread, self._vectors, [tokens])
        return Completion(prompt if isinstance(prompt, str) else "", tokens, vectors=vector)

    def _complete_some(self) -> None:
        """Go on with the first prompt that waits, and with those that may go with it."""
        with self._lock:
            if not self._waiting:
                return  # they went with others
            _, given, _ = self._waiting[0]
            some = [one for one in self._waiting if one[1] == given][:TOGETHER_MAX]
            self._waiting = [one for one in self._waiting if one not in some]
        try:
            made = self._completed([tokens for tokens, _, _ in some], given)
        except BaseException as error:
            for _, _, done in some:
                done.set_exception(error)
            return
        for (_, _, done), tokens in zip(some, made, strict=True):
            done.set_result(tokens)

    def _completed(self, several: list[list[int]], given: dict[str, Any]) -> list[list[int]]:
        """The tokens that come after each prompt."""
        torch = self._torch
        given, seed = dict(given), given.get("seed")
        given.pop("seed", None)
        if seed is not None:
            torch.manual_seed(seed)
        width, fill = max(map(len, several)), self._tokenizer.eos_token_id or 0
        shape = {"device": self._model.device}
        ids = torch.tensor([[fill] * (width - len(one)) + one for one in several], **shape)
        mask = torch.tensor([[0] * (width - len(one)) + [1] * len(one) for one in several], **shape)
        with torch.inference_mode():
            made = self._model.generate(ids, attention_mask=mask, pad_token_id=fill, **given)
        ends, found = self._ends(), []
        for row in made[:, width:].tolist():
            at = next((number + 1 for number, token in enumerate(row) if token in ends), len(row))
            found.append(row[:at])
        return found

    async def transcribe(self, *_: Any) -> tuple[str, float]:
        """Raises ``ValueError``: recordings are read by models of speech."""
        raise ValueError("The model writes text, and reads no recordings.")

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


def _parameters(params: dict[str, Any], room: int) -> dict[str, Any]:
    """Parameters of ``generate``, of such in its names or in vLLM's, and "stop".

    Raises:
        ValueError: There is no room for an answer.
    """
    given = {name: value for name, value in params.items() if value is not None}
    stop = given.pop("stop", [])
    wanted = given.pop("max_tokens", None) or given.pop("max_new_tokens", None) or TOKENS_USUAL
    if room < 1:
        raise ValueError("The prompt fills the model's context: there is no room for an answer.")
    temperature = given.pop("temperature", 1.0)
    made: dict[str, Any] = {"max_new_tokens": min(wanted, room), "do_sample": bool(temperature)}
    drawn = {name: given.pop(name) for name in ("top_p", "top_k") if name in given}
    if temperature:
        made["temperature"] = temperature
        made.update({name: value for name, value in drawn.items() if value not in (-1, 0)})
    return {**made, **given, "stop": [stop] if isinstance(stop, str) else list(stop)}


def _layers(cache: Any) -> list[tuple[Any, Any]]:
    """The keys and values of a cache."""
    layers = getattr(cache, "layers", None)
    if layers is not None:
        return [(one.keys, one.values) for one in layers]
    return list(zip(cache.key_cache, cache.value_cache, strict=True))  # before transformers 4.54


def _as_array(torch: Any, tensor: Any) -> tuple[str, Any]:
    """A tensor's kind and bytes: arrays have no bfloat16."""
    kind = str(tensor.dtype).removeprefix("torch.")
    return kind, tensor.detach().cpu().contiguous().view(torch.uint8).numpy()


def _as_tensor(torch: Any, given: tuple[str, Any]) -> Any:
    kind, array = given
    return torch.tensor(array).view(getattr(torch, kind))


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
        """End the stream."""

    def finish(self) -> None:
        """Tell what was kept back, and why it has ended."""
        rest = ""
        if not self._stops.was_met:
            text = self._tokenizer.decode(self._made, skip_special_tokens=True)
            rest = self._stops.take(text[self._shown :], is_last=True)
        self._tell(Piece(rest, self._asked, len(self._made), self._reason))
