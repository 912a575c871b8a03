"""The stages between ``preprocess`` and ``postprocess``. These run in workers.

Between them a row is one value of the column ``COLUMN``, pickled: Arrow would give all rows the same keys,
and a request of a service, or a picture, is to come through as it was.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
import uuid
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

import heliostat as ray
from heliostat.core.platform.extras import required
from heliostat.data.llm.configs import ERROR
from heliostat.util.engines.engine import Completion, Model
from heliostat.util.engines.loading import load

if TYPE_CHECKING:
    import numpy as np
    import transformers

    from heliostat.data.aliases import Function, Row, Value


T = TypeVar("T")

COLUMN = "__data"
PROMPT_SHOWN_MAX = 500  # letters of a prompt that is kept with its error


class Before:
    """Packs rows, with what ``preprocess`` adds to each."""

    def __init__(self, fn: Callable[[Row], Row] | None) -> None:
        self._fn = fn

    def __call__(self, row: Row) -> Row:
        made = {} if self._fn is None else self._fn(row)
        if not isinstance(made, dict):
            raise TypeError(f"preprocess gives a dict for a row, not a {type(made).__name__}.")
        return {COLUMN: ray.cloudpickle.dumps({**row, **made})}


class After:
    """Unpacks rows, and gives them to ``postprocess``; rows that failed are given as they are."""

    def __init__(self, fn: Callable[[Row], Row] | None, has_errors: bool) -> None:
        self._fn, self._has_errors = fn, has_errors

    def __call__(self, row: Row) -> Row:
        whole: Row = ray.cloudpickle.loads(row[COLUMN])
        if whole.get(ERROR):
            return whole
        made = whole if self._fn is None else self._fn(whole)
        return {**made, ERROR: ""} if self._has_errors else made


class Stage:
    """Base class of stages: what ``change`` gives for each row is added to it.

    Args:
        needs: Columns that a row has to have, by what they are for.
    """

    needs: tuple[str, ...] = ()

    async def __call__(self, batch: dict[str, Sequence[bytes]]) -> dict[str, list[bytes]]:
        rows = [ray.cloudpickle.loads(one) for one in batch[COLUMN]]
        whole = [row for row in rows if not row.get(ERROR)]
        for row in whole:
            lacks = [name for name in self.needs if name not in row]
            if lacks:
                raise ValueError(
                    f"{type(self).__name__} needs the columns {lacks}, which `preprocess` has to give; a row "
                    f"has {list(row)}."
                )
        for row, more in zip(whole, await self.change(whole), strict=True):
            row.update(more)
        return {COLUMN: [ray.cloudpickle.dumps(row) for row in rows]}

    async def change(self, rows: list[Row]) -> Iterable[Row]:
        """Return the new values of each row."""
        raise NotImplementedError


class ChatTemplateStage(Stage):
    """Messages become a prompt."""

    needs = ("messages",)

    def __init__(
        self, model: str, template: str | None, variables: dict[str, object] | None
    ) -> None:
        self._tokenizer = _tokenizer(model)
        self._template, self._variables = template, variables or {}
        if template is None and not self._tokenizer.chat_template:
            raise ValueError(
                f"The tokenizer of {model} has no template of chats: pass one as "
                "chat_template_stage={'chat_template': ...}, or give prompts, with chat_template_stage=False."
            )

    async def change(self, rows: list[Row]) -> Iterable[Row]:
        """A prompt each."""
        return [{"prompt": self._prompt(row["messages"])} for row in rows]

    def _prompt(self, messages: np.ndarray | Iterable[dict[str, str]]) -> str:
        messages = messages.tolist() if hasattr(messages, "tolist") else list(messages)
        begins = messages[-1]["role"] == "user"  # else the last message is to be gone on with
        text: str = self._tokenizer.apply_chat_template(
            messages,
            tokenize=False,
            chat_template=self._template,
            add_generation_prompt=begins,
            continue_final_message=not begins,
            **self._variables,
        )
        return text


class TokenizeStage(Stage):
    """A prompt becomes tokens."""

    needs = ("prompt",)

    def __init__(self, model: str) -> None:
        self._tokenizer = _tokenizer(model)

    async def change(self, rows: list[Row]) -> Iterable[Row]:
        """Tokens each."""
        if not rows:
            return []
        found = self._tokenizer([row["prompt"] for row in rows])["input_ids"]
        return [{"tokenized_prompt": [int(token) for token in tokens]} for tokens in found]


class DetokenizeStage(Stage):
    """Generated tokens become text."""

    needs = ("generated_tokens",)

    def __init__(self, model: str) -> None:
        self._tokenizer = _tokenizer(model)

    async def change(self, rows: list[Row]) -> Iterable[Row]:
        """A text each."""
        tokens = [row["generated_tokens"] for row in rows]
        texts = self._tokenizer.batch_decode(tokens, skip_special_tokens=True)
        return [{"generated_text": text} for text in texts]


def _tokenizer(model: str) -> transformers.PreTrainedTokenizerBase:
    return required("transformers", "Tokenizers", "llm").AutoTokenizer.from_pretrained(model)


class Loop:
    """An event loop in a thread of its own, as long as the worker: an engine belongs to one."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True, name="engine").start()

    def run(self, made: Coroutine[object, object, T]) -> T:
        """Return the result of a coroutine."""
        return asyncio.run_coroutine_threadsafe(made, self._loop).result()

    async def wait(self, made: Coroutine[object, object, T]) -> T:
        """Wait for the answer in another event loop."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(made, self._loop))


class EngineStage(Stage):
    """Prompts go through a model.

    Args:
        model: The model.
        task: "generate", or what vectors are for.
        pending_max: Rows that are with the engine at the same time; None: as many as come.
        goes_on: Whether a row that fails is told of in its own column, and the others go on.
    """

    def __init__(self, model: Model, task: str, pending_max: int | None, goes_on: bool) -> None:
        self.needs = ("sampling_params",) if task == "generate" else ()
        self._task, self._goes_on = task, goes_on
        self._loop = Loop()
        self._numbers = itertools.count()

        async def begin() -> tuple[Value, asyncio.Semaphore | None]:
            return load(model), asyncio.Semaphore(pending_max) if pending_max else None

        self._engine, self._room = self._loop.run(begin())

    async def change(self, rows: list[Row]) -> Iterable[Row]:
        """Return the result of each prompt."""
        found: list[Row] = await self._loop.wait(self._all(rows))
        return found

    async def _all(self, rows: list[Row]) -> list[Row]:
        batch = uuid.uuid4().hex
        return list(await asyncio.gather(*(self._limited(row, batch) for row in rows)))

    async def _limited(self, row: Row, batch: str) -> Row:
        if self._room is None:
            return await self._one(row, batch)
        async with self._room:
            return await self._one(row, batch)

    async def _one(self, row: Row, batch: str) -> Row:
        began, said = time.perf_counter(), row.get("prompt", "")
        params = row.get("sampling_params" if self._task == "generate" else "pooling_params") or {}
        params = {name: _plain(value) for name, value in params.items()}
        try:
            prompt = row.get("tokenized_prompt")
            prompt = said if prompt is None else [int(token) for token in prompt]
            if not isinstance(prompt, list) and not prompt:
                raise ValueError("A row needs the column 'prompt' or 'tokenized_prompt'.")
            if self._task == "generate":
                made = await self._engine.complete(prompt, params)
            else:
                made = await self._engine.pool(prompt, self._task, params)
        except Exception as error:
            if not self._goes_on:
                raise
            failed = Completion(str(said)[:PROMPT_SHOWN_MAX], [])
            return {**_columns(failed), **_about(-1, batch, -1.0, params), ERROR: _text(error)}
        about = _about(next(self._numbers), batch, time.perf_counter() - began, params)
        return {**_columns(made), "prompt": said or made.prompt, **about, ERROR: ""}


def _about(number: int, batch: str, seconds: float, params: Row) -> Row:
    return {
        "request_id": number,
        "batch_uuid": batch,
        "time_taken_llm": seconds,
        "params": str(params),
    }


def _columns(made: Completion) -> Row:
    return {
        "prompt": made.prompt,
        "prompt_token_ids": made.prompt_tokens,
        "num_input_tokens": len(made.prompt_tokens),
        "generated_tokens": made.tokens,
        "generated_text": made.text,
        "num_generated_tokens": len(made.tokens),
        "embeddings": made.vectors,
        "metrics": made.metrics,
    }


def _plain(value: object) -> object:
    return value.tolist() if hasattr(value, "tolist") else value


def _text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


class ServeDeploymentStage(Stage):
    """Calls of a deployment of Serve."""

    needs = ("method", "request_kwargs")

    def __init__(
        self,
        deployment: str,
        app: str,
        kinds: dict[str, Function] | None,
        goes_on: bool,
        timeout_s: float | None,
    ) -> None:
        self._handle = ray.serve.get_deployment_handle(deployment, app).options(stream=True)
        self._kinds, self._goes_on, self._timeout_s = kinds or {}, goes_on, timeout_s
        self._loop = Loop()

    async def change(self, rows: list[Row]) -> Iterable[Row]:
        """Return the result of each call."""

        async def every() -> list[Row]:
            return list(await asyncio.gather(*(self._one(row) for row in rows)))

        found: list[Row] = await self._loop.wait(every())
        return found

    async def _one(self, row: Row) -> Row:
        try:
            made = await asyncio.wait_for(self._called(row), self._timeout_s)
        except Exception as error:
            if not self._goes_on:
                raise
            return {ERROR: _text(error)}
        return {**made, ERROR: ""} if self._goes_on else made

    async def _called(self, row: Row) -> Row:
        given, name = dict(row["request_kwargs"]), row.get("dtype")
        if name is not None and name not in self._kinds:
            raise ValueError(
                f"{name} must be provided in ServeDeploymentProcessorConfig's dtype_mapping; there are "
                f"{sorted(self._kinds)}."
            )
        body = given if name is None else self._kinds[name](**given)
        made: object = None
        async for piece in getattr(self._handle, row["method"]).remote(body):
            made = piece
        made = made.model_dump() if hasattr(made, "model_dump") else made
        if not isinstance(made, dict):
            raise TypeError(f"{row['method']} gives a dict or a model of Pydantic, not {made!r}.")
        return made
