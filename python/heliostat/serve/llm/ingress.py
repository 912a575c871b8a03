"""OpenAI's routes in front of models."""

from __future__ import annotations

import asyncio
import email
import email.message
import functools
from collections.abc import AsyncIterator, Callable
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from pydantic import ValidationError

from heliostat.serve import api, asgi
from heliostat.serve.deployment import Application
from heliostat.serve.handle import DeploymentHandle
from heliostat.serve.llm.config import IngressClsConfig, LLMConfig, LLMServingArgs
from heliostat.serve.llm.deployment import build_dp_deployment, build_llm_deployment
from heliostat.serve.llm.openai_api_models import (
    ChatCompletionRequest,
    CompletionRequest,
    EmbeddingRequest,
    ErrorInfo,
    ErrorResponse,
    TranscriptionRequest,
)

__all__ = ["OpenAiIngress", "build_dp_openai_app", "build_openai_app", "make_fastapi_ingress"]


class OpenAiIngress:
    """The routes: chats, completions, embeddings, and which models there are.

    Args:
        llm_deployments: Handles by the model's name.
        model_cards: What ``/v1/models`` says of each, by the model's name. Default: its name.

    Examples:
        >>> from ray.serve.llm import LLMConfig, OpenAiIngress, build_openai_app
        >>> class Ingress(OpenAiIngress):
        ...     async def models(self):
        ...         found = await super().models()
        ...         print(len(found.data), "models")
        ...         return found
        >>> config = LLMConfig(
        ...     model_loading_config={"model_id": "small", "model_source": "/models/small"},
        ...     llm_engine="transformers",
        ... )
        >>> app = build_openai_app(
        ...     {"llm_configs": [config], "ingress_cls_config": {"ingress_cls": Ingress}}
        ... )
    """

    def __init__(
        self,
        llm_deployments: dict[str, DeploymentHandle],
        model_cards: dict[str, Any] | None = None,
    ) -> None:
        self._cards = {name: _card(name) for name in llm_deployments} | (model_cards or {})
        self._models = {
            name: handle.options(stream=True) for name, handle in llm_deployments.items()
        }

    async def completions(self, body: CompletionRequest) -> Response:
        """Say how texts go on.

        Args:
            body: The request.

        Returns:
            The answer, or a stream of its pieces.
        """
        return await self._answer("completions", body)

    async def chat(self, body: ChatCompletionRequest) -> Response:
        """Say how a conversation goes on.

        Args:
            body: The request.

        Returns:
            The answer, or a stream of its pieces.
        """
        return await self._answer("chat", body)

    async def embeddings(self, body: EmbeddingRequest) -> Response:
        """Return vectors of texts.

        Args:
            body: The request.
        """
        return await self._answer("embeddings", body)

    async def transcriptions(self, body: TranscriptionRequest) -> Response:
        """Write down what a recording says.

        Args:
            body: The request.

        Returns:
            The text, or a stream of its only piece.
        """
        return await self._answer("transcriptions", body)

    async def models(self) -> dict[str, Any]:
        """The models that there are."""
        return {"object": "list", "data": [self._cards[name] for name in self._models]}

    async def model_data(self, model: str) -> Any:
        """Return one of the models.

        Args:
            model: Its name.
        """
        return self._cards[model] if model in self._models else self._unknown(model)

    @classmethod
    def get_deployment_options(cls, llm_configs: list[LLMConfig] | None = None) -> dict[str, Any]:
        """Return options of ``@serve.deployment`` for the routes.

        Args:
            llm_configs: The models; the options are the same for all.
        """
        return {"max_ongoing_requests": 1000, "ray_actor_options": {"num_cpus": 1}}

    def _unknown(self, model: str | None) -> Response:
        names = ", ".join(self._models)
        return _failed(404, f"There is no model {model!r}; there are: {names}.")

    async def _answer(self, method: str, body: Any) -> Response:
        name = body.model
        if name is None and len(self._models) == 1:
            [name] = self._models
        if name not in self._models:
            return self._unknown(name)
        pieces = getattr(self._models[name], method).remote(body)
        try:
            first = await anext(pieces)
        except asyncio.CancelledError:
            pieces.cancel()
            raise
        if isinstance(first, ErrorResponse):
            return JSONResponse(first.model_dump(), first.error.code)
        if getattr(body, "stream", False):
            return StreamingResponse(_events(first, pieces), media_type="text/event-stream")
        if getattr(body, "response_format", None) == "text":
            return PlainTextResponse(first.text)
        return JSONResponse(first.model_dump(exclude_none=method == "transcriptions"))


async def _events(first: Any, pieces: Any) -> AsyncIterator[str]:
    """Server-sent events, as OpenAI's clients read them."""
    try:
        yield f"data: {first.model_dump_json(exclude_none=True)}\n\n"
        async for piece in pieces:
            yield f"data: {piece.model_dump_json(exclude_none=True)}\n\n"
        yield "data: [DONE]\n\n"
    finally:
        # A client that has gone: without effect where all has come.
        pieces.cancel()


def _card(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "heliostat"}


def _failed(status: int, message: str) -> Response:
    kinds = {400: "BadRequestError", 404: "NotFoundError"}
    info = ErrorInfo(message=message, type=kinds[status], code=status)
    return JSONResponse(ErrorResponse(error=info).model_dump(), status)


def _by_value(method: Callable[..., Any]) -> Callable[..., Any]:
    """The method in a function of its own: annotations that are set here leave the class alone."""

    @functools.wraps(method)
    async def route(*args: Any, **kwargs: Any) -> Any:
        return await method(*args, **kwargs)

    return route


def _of_form(method: Callable[..., Any]) -> Callable[..., Any]:
    """The method for a form with a file, as clients send recordings."""

    @functools.wraps(method, ("__module__", "__name__", "__qualname__", "__doc__"))
    async def route(self: Any, request: Request) -> Any:
        fields = _fields(request.headers.get("content-type", ""), await request.body())
        try:
            body = TranscriptionRequest.model_validate(fields)
        except ValidationError as error:
            return _failed(400, _said(error.errors(), 0))
        return await method(self, body)

    del route.__wrapped__  # whose parameters FastAPI would ask for
    return route


def _fields(kind: str, body: bytes) -> dict[str, str | bytes]:
    """The fields of a form, files as bytes; none of what is not a form."""
    told = email.message.Message()
    told["content-type"] = kind
    edge = told.get_boundary()
    if told.get_content_type() != "multipart/form-data" or not edge:
        return {}
    fields: dict[str, str | bytes] = {}
    for part in (b"\r\n" + body).split(b"\r\n--" + edge.encode())[1:-1]:
        head, _, data = part.removeprefix(b"\r\n").partition(b"\r\n\r\n")
        about = email.message_from_bytes(head)
        name = about.get_param("name", header="content-disposition")
        if isinstance(name, str):
            fields[name] = (
                data if about.get_filename() is not None else data.decode(errors="replace")
            )
    return fields


def _said(errors: Any, skipped: int) -> str:
    """The errors of a body, by field."""
    rows = [f"{'.'.join(map(str, one['loc'][skipped:]))}: {one['msg']}" for one in errors]
    return "; ".join(rows)


def make_fastapi_ingress(cls: type, *, app: FastAPI | None = None) -> type:
    """A class with the routes of ``OpenAiIngress``, on that FastAPI application or one of their own."""
    app = app or FastAPI(title="OpenAI-compatible API")

    async def is_wrong(_: Request, error: RequestValidationError) -> Response:
        return _failed(400, _said(error.errors(), 1))

    app.exception_handler(RequestValidationError)(is_wrong)
    for method, path, name in (
        ("POST", "/v1/completions", "completions"),
        ("POST", "/v1/chat/completions", "chat"),
        ("POST", "/v1/embeddings", "embeddings"),
        ("GET", "/v1/models", "models"),
        ("GET", "/v1/models/{model:path}", "model_data"),
    ):
        route = _by_value(getattr(cls, name))
        app.add_api_route(path, route, methods=[method], response_model=None)
    app.add_api_route(
        "/v1/audio/transcriptions",
        _of_form(cls.transcriptions),  # type: ignore[attr-defined] # of `OpenAiIngress`
        methods=["POST"],
        response_model=None,
    )
    return asgi.ingress(app)(cls)


def build_openai_app(llm_serving_args: dict[str, Any] | LLMServingArgs) -> Application:
    """Return an application with OpenAI's routes in front of models, for ``serve.run`` and import paths.

    Args:
        llm_serving_args: ``{"llm_configs": [LLMConfig(…), …]}``; see ``LLMServingArgs``.

    Raises:
        ValueError: Something in it cannot be.

    Examples:
        >>> from ray.serve.llm import LLMConfig, build_openai_app
        >>> config = LLMConfig(
        ...     model_loading_config={"model_id": "small", "model_source": "/models/small"},
        ...     llm_engine="transformers",
        ... )
        >>> app = build_openai_app({"llm_configs": [config]})

        ``serve.run(app)`` answers at ``/v1/chat/completions``.
    """
    arguments = LLMServingArgs.model_validate(llm_serving_args)
    models = {one.model_id: build_llm_deployment(one) for one in arguments.llm_configs}
    return application_of(models, arguments.ingress_cls_config, arguments.ingress_deployment_config)


def build_dp_openai_app(dp_serving_args: dict[str, Any]) -> Application:
    """As ``build_openai_app``, for one model with ``build_dp_deployment``.

    Args:
        dp_serving_args: ``{"llm_config": LLMConfig(…)}``, with ``ingress_cls_config`` and
            ``ingress_deployment_config`` as in ``LLMServingArgs``.

    Returns:
        The application, for ``serve.run`` and import paths.

    Raises:
        ValueError: Something in it cannot be.

    Examples:
        >>> from ray.serve.llm import LLMConfig, build_dp_openai_app
        >>> config = LLMConfig(
        ...     model_loading_config={"model_id": "small", "model_source": "/models/small"},
        ...     llm_engine="transformers",
        ...     engine_kwargs={"data_parallel_size": 2},
        ... )
        >>> app = build_dp_openai_app({"llm_config": config})

        ``serve.run(app)`` answers at ``/v1/chat/completions``.
    """
    given = dict(dp_serving_args)
    if "llm_config" not in given:
        raise ValueError("`llm_config` is missing: the model.")
    arguments = LLMServingArgs.model_validate({"llm_configs": [given.pop("llm_config")], **given})
    [model] = arguments.llm_configs
    return application_of(
        {model.model_id: build_dp_deployment(model)},
        arguments.ingress_cls_config,
        arguments.ingress_deployment_config,
    )


def application_of(
    models: dict[str, Application], chosen: IngressClsConfig, given: dict[str, Any]
) -> Application:
    """Routes in front of models, with options of ``@serve.deployment`` for what has the routes."""
    kind = chosen.ingress_cls or OpenAiIngress
    routes = api.deployment(
        make_fastapi_ingress(kind), **{**kind.get_deployment_options(), **given}
    )
    made: Application = routes.bind(models, **chosen.ingress_extra_kwargs)
    return made
