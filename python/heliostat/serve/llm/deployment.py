"""A model's replicas: ``LLMServer``, and what makes a deployment of it."""

from __future__ import annotations

import asyncio
import base64
import struct
from collections.abc import AsyncIterator
from typing import Any

from heliostat.serve import api
from heliostat.serve.deployment import Application
from heliostat.serve.llm.config import LLMConfig
from heliostat.serve.llm.openai_api_models import (
    ChatChoice,
    ChatCompletionRequest,
    ChatCompletionResponse,
    ChatCompletionStreamResponse,
    ChatDelta,
    ChatMessage,
    ChatPiece,
    CompletionChoice,
    CompletionRequest,
    CompletionResponse,
    CompletionStreamResponse,
    Embedding,
    EmbeddingRequest,
    EmbeddingResponse,
    ErrorInfo,
    ErrorResponse,
    TranscriptionRequest,
    TranscriptionResponse,
    TranscriptionStreamResponse,
    Usage,
    new_id,
)
from heliostat.util.engines.engine import TOKENS_USUAL, Piece, Sampling
from heliostat.util.engines.loading import load

__all__ = ["LLMServer", "build_dp_deployment", "build_llm_deployment"]


class LLMServer:
    """A model. Its methods are generators: with ``stream`` of the request of pieces, else of the answer.

    What a client has asked wrongly is an ``ErrorResponse``.

    Args:
        llm_config: The model.

    Examples:
        >>> from ray.serve.llm import LLMConfig, LLMServer, build_llm_deployment
        >>> class Polite(LLMServer):
        ...     async def chat(self, request, *rest):
        ...         request.messages.insert(0, {"role": "system", "content": "Be polite."})
        ...         async for piece in super().chat(request, *rest):
        ...             yield piece
        >>> config = LLMConfig(
        ...     model_loading_config={"model_id": "small", "model_source": "/models/small"},
        ...     llm_engine="transformers",
        ... )
        >>> app = build_llm_deployment(config, deployment_cls=Polite)
    """

    async def __init__(self, llm_config: LLMConfig) -> None:  # type: ignore[misc] # Serve awaits it
        self._config = llm_config
        loop = asyncio.get_running_loop()
        model = await loop.run_in_executor(None, lambda: llm_config.model)  # it may be fetched
        # vLLM belongs to the event loop; loading another model takes long.
        if llm_config.engine == "vLLM":
            self._engine = load(model)
        else:
            self._engine = await loop.run_in_executor(None, load, model)

    async def check_health(self) -> None:
        """Raises when the engine has ended."""
        await self._engine.check()

    async def llm_config(self) -> LLMConfig:
        """Return the configuration of the model."""
        return self._config

    def _generate(self, prompt: str, sampling: Sampling) -> AsyncIterator[Piece]:
        """Yield the pieces of an answer."""
        made: AsyncIterator[Piece] = self._engine.generate(prompt, sampling)
        return made

    async def chat(self, request: ChatCompletionRequest) -> AsyncIterator[Any]:
        """Answer ``POST /v1/chat/completions``.

        Args:
            request: The request.

        Yields:
            A piece of the answer, or the answer.
        """
        answer, name = new_id("chatcmpl"), self._config.model_id
        try:
            messages = [{"role": one.role, "content": one.text()} for one in request.messages]
            prompt = self._engine.conversation(messages)
            sampling = _sampling(request, request.max_completion_tokens or request.max_tokens)
            whole, last = "", Piece("", 0, 0)

            def piece(delta: ChatDelta, reason: str | None = None) -> ChatCompletionStreamResponse:
                choices = [ChatPiece(index=0, delta=delta, finish_reason=reason)]
                return ChatCompletionStreamResponse(id=answer, model=name, choices=choices)

            async for last in self._generate(prompt, sampling):
                if not request.stream:
                    whole += last.text
                    continue
                if not whole:
                    yield piece(ChatDelta(role="assistant", content=""))
                    whole = "begun"
                if last.text or last.finish_reason:
                    yield piece(ChatDelta(content=last.text), last.finish_reason)
        except ValueError as error:
            yield _wrong(error)
            return
        usage = _usage([last])
        if not request.stream:
            message = ChatMessage(role="assistant", content=whole)
            choice = ChatChoice(index=0, message=message, finish_reason=last.finish_reason)
            yield ChatCompletionResponse(id=answer, model=name, choices=[choice], usage=usage)
        elif request.stream_options is not None and request.stream_options.include_usage:
            yield ChatCompletionStreamResponse(id=answer, model=name, choices=[], usage=usage)

    async def completions(self, request: CompletionRequest) -> AsyncIterator[Any]:
        """Answer ``POST /v1/completions``.

        Args:
            request: The request.

        Yields:
            A piece of the answer, or the answer.
        """
        answer, name = new_id("cmpl"), self._config.model_id
        sampling = _sampling(request, request.max_tokens or TOKENS_USUAL)
        ends: list[Piece] = []
        choices: list[CompletionChoice] = []
        try:
            for index, prompt in enumerate(request.prompts):
                whole, last = "", Piece("", 0, 0)
                async for last in self._generate(prompt, sampling):
                    whole += last.text
                    if request.stream and (last.text or last.finish_reason):
                        one = CompletionChoice(
                            index=index, text=last.text, finish_reason=last.finish_reason
                        )
                        yield CompletionStreamResponse(id=answer, model=name, choices=[one])
                ends.append(last)
                choices.append(
                    CompletionChoice(index=index, text=whole, finish_reason=last.finish_reason)
                )
        except ValueError as error:
            yield _wrong(error)
            return
        usage = _usage(ends)
        if not request.stream:
            yield CompletionResponse(id=answer, model=name, choices=choices, usage=usage)
        elif request.stream_options is not None and request.stream_options.include_usage:
            yield CompletionStreamResponse(id=answer, model=name, choices=[], usage=usage)

    async def embeddings(self, request: EmbeddingRequest) -> AsyncIterator[Any]:
        """Answer ``POST /v1/embeddings``.

        Args:
            request: The request.

        Yields:
            The answer; a ``ValueError`` for a length of vectors becomes an ``ErrorResponse``.

        Raises:
            ValueError: Never: it becomes an ``ErrorResponse``.
        """
        try:
            vectors, tokens = await self._engine.embed(request.inputs)
            if request.dimensions is not None:
                raise ValueError(
                    "The length of the model's vectors is fixed: leave `dimensions` out."
                )
        except ValueError as error:
            yield _wrong(error)
            return
        data = [
            Embedding(index=index, embedding=_encoded(one, request.encoding_format))
            for index, one in enumerate(vectors)
        ]
        usage = Usage(prompt_tokens=tokens, total_tokens=tokens)
        yield EmbeddingResponse(
            id=new_id("embd"), model=self._config.model_id, data=data, usage=usage
        )

    async def transcriptions(self, request: TranscriptionRequest) -> AsyncIterator[Any]:
        """Answer ``POST /v1/audio/transcriptions``.

        Args:
            request: The request. ``prompt`` has no effect.

        Yields:
            The text; with ``stream`` as a piece.
        """
        try:
            text, seconds = await self._engine.transcribe(
                request.file, request.language, request.temperature
            )
        except ValueError as error:
            yield _wrong(error)
            return
        if request.stream:
            yield TranscriptionStreamResponse(
                id=new_id("trsc"),
                model=self._config.model_id,
                choices=[{"delta": {"content": text}, "finish_reason": "stop"}],
            )
        else:
            usage = {"type": "duration", "seconds": round(seconds)}
            yield TranscriptionResponse(text=text, usage=usage)

    @classmethod
    def get_deployment_options(cls, llm_config: LLMConfig) -> dict[str, Any]:
        """Return options of ``@serve.deployment`` for a model.

        Args:
            llm_config: The model.
        """
        options = {"max_ongoing_requests": 1000, **llm_config.deployment_config}
        options.setdefault("health_check_timeout_s", 60)
        actor = dict(options.get("ray_actor_options") or {})
        group = dict(llm_config.placement_group_config or {})
        if group:
            options["placement_group_bundles"] = group["bundles"]
            options["placement_group_strategy"] = group.get("strategy", "PACK")
        if llm_config.accelerator_type is not None:
            actor.setdefault("accelerator_type", llm_config.accelerator_type)
            actor.setdefault("num_gpus", llm_config.engine_kwargs.get("tensor_parallel_size", 1))
        if llm_config.runtime_env is not None:
            actor.setdefault("runtime_env", llm_config.runtime_env)
        options["ray_actor_options"] = actor
        return options


def _sampling(request: Any, max_tokens: int | None) -> Sampling:
    return Sampling(
        max_tokens,
        1.0 if request.temperature is None else request.temperature,
        request.top_p or 1.0,
        max(0, request.top_k or 0),
        request.seed,
        tuple(request.stops),
    )


def _usage(ends: list[Piece]) -> Usage:
    asked, made = sum(one.prompt_tokens for one in ends), sum(one.tokens for one in ends)
    return Usage(prompt_tokens=asked, completion_tokens=made, total_tokens=asked + made)


def _wrong(error: Exception) -> ErrorResponse:
    info = ErrorInfo(message=str(error), type="BadRequestError", code=400)
    return ErrorResponse(error=info)


def _encoded(vector: list[float], form: str) -> list[float] | str:
    if form == "float":
        return vector
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


def build_llm_deployment(
    llm_config: LLMConfig,
    *,
    name_prefix: str | None = None,
    bind_kwargs: dict[str, Any] | None = None,
    override_serve_options: dict[str, Any] | None = None,
    deployment_cls: type[LLMServer] | None = None,
) -> Application:
    """Return an application of one model, for handles: ``handle.options(stream=True).chat.remote(request)``.

    Args:
        llm_config: The model.
        name_prefix: Before the deployment's name, which is the model's. Default ``"LLMServer:"``.
        bind_kwargs: Further arguments of the deployment's constructor.
        override_serve_options: Options of ``@serve.deployment``, laid over those of the configuration.
        deployment_cls: The class. Default: that of the configuration, else ``LLMServer``.

    Examples:
        >>> from ray.serve.llm import LLMConfig, build_llm_deployment
        >>> config = LLMConfig(
        ...     model_loading_config={"model_id": "small", "model_source": "/models/small"},
        ...     llm_engine="transformers",
        ... )
        >>> app = build_llm_deployment(config, override_serve_options={"num_replicas": 2})

        ``serve.run(app).options(stream=True).chat.remote(request)`` gives the pieces of an answer.
    """
    kind = deployment_cls or llm_config.server_cls or LLMServer
    options = kind.get_deployment_options(llm_config)
    name = options.pop("name", None) or llm_config.model_id.replace("/", "--").replace("#", "-")
    options |= override_serve_options or {}
    options.setdefault("name", f"{name_prefix or 'LLMServer:'}{name}")
    made: Application = api.deployment(kind, **options).bind(llm_config, **(bind_kwargs or {}))
    return made


def build_dp_deployment(
    llm_config: LLMConfig,
    *,
    name_prefix: str | None = None,
    bind_kwargs: dict[str, Any] | None = None,
    override_serve_options: dict[str, Any] | None = None,
    deployment_cls: type[LLMServer] | None = None,
) -> Application:
    """As ``build_llm_deployment``, with as many replicas as ``data_parallel_size`` of ``engine_kwargs`` says.

    Each has a whole engine.

    Args:
        llm_config: The model. Without ``data_parallel_size`` it has one replica.
        name_prefix: Before the deployment's name, which is the model's. Default ``"LLMServer:"``.
        bind_kwargs: Further arguments of the deployment's constructor.
        override_serve_options: Options of ``@serve.deployment``, laid over those of the configuration.
        deployment_cls: The class. Default: that of the configuration, else ``LLMServer``.

    Returns:
        The application, for ``serve.run`` or ``bind`` of another deployment.

    Raises:
        ValueError: ``data_parallel_size`` is not a positive integer, or the ``deployment_config`` has
            ``num_replicas`` or ``autoscaling_config``.

    Examples:
        >>> from ray.serve.llm import LLMConfig, build_dp_deployment
        >>> config = LLMConfig(
        ...     model_loading_config={"model_id": "small", "model_source": "/models/small"},
        ...     llm_engine="transformers",
        ...     engine_kwargs={"data_parallel_size": 2},
        ... )
        >>> app = build_dp_deployment(config)  # two replicas

        ``serve.run(app).options(stream=True).chat.remote(request)`` gives the pieces of an answer.
    """
    engine = dict(llm_config.engine_kwargs)
    size = engine.pop("data_parallel_size", 1)
    if type(size) is not int or size < 1:
        raise ValueError(f"`data_parallel_size` must be a positive integer, not {size!r}.")
    other = {"num_replicas", "autoscaling_config"} & {
        name for name, value in llm_config.deployment_config.items() if value is not None
    }
    if other:
        raise ValueError(
            f"`data_parallel_size` says how many replicas there are: leave {other} out."
        )
    options = {**llm_config.deployment_config, "num_replicas": size}
    return build_llm_deployment(
        llm_config.model_copy(update={"engine_kwargs": engine, "deployment_config": options}),
        name_prefix=name_prefix,
        bind_kwargs=bind_kwargs,
        override_serve_options=override_serve_options,
        deployment_cls=deployment_cls,
    )
