"""Prompts are read by some replicas, and gone on with by others: ``build_pd_openai_app``.

What an engine knows of a prompt that it has read, its keys and values, goes from the one to the other: by the
object store with transformers, by the connector of ``kv_transfer_config`` with vLLM.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from pydantic import Field, field_validator, model_validator

from heliostat.serve.deployment import Application
from heliostat.serve.handle import DeploymentHandle
from heliostat.serve.llm.config import IngressClsConfig, LLMConfig, Strict
from heliostat.serve.llm.deployment import (
    LLMServer,
    build_dp_deployment,
    build_llm_deployment,
)
from heliostat.serve.llm.ingress import application_of
from heliostat.util.engines.engine import Piece, Sampling

__all__ = ["PDDecodeServer", "PDPrefillServer", "PDServingArgs", "build_pd_openai_app"]


class PDPrefillServer(LLMServer):
    """A model that reads prompts for others.

    Args:
        llm_config: The model.
    """

    async def prefill(self, prompt: str) -> Any:
        """Return what the engine knows of a prompt, for ``generate`` of another engine.

        Args:
            prompt: The text.
        """
        return await self._engine.prefill(prompt)


class PDDecodeServer(LLMServer):
    """A model that goes on with prompts which others have read.

    Args:
        llm_config: The model.
        prefill_server: A handle to the others.
    """

    async def __init__(self, llm_config: LLMConfig, prefill_server: DeploymentHandle) -> None:  # type: ignore[misc] # Serve awaits it
        await super().__init__(llm_config)
        self._others = prefill_server

    async def _generate(self, prompt: str, sampling: Sampling) -> AsyncIterator[Piece]:
        try:
            read = await self._others.prefill.remote(prompt)
        except ValueError as error:
            # The client's fault, without the places in the other replica's code.
            raise ValueError(str(getattr(error, "cause", None) or error)) from None
        async for piece in self._engine.generate(prompt, sampling, read):
            yield piece


class PDServingArgs(Strict):
    """The arguments of ``build_pd_openai_app``.

    Attributes:
        prefill_config: The model as it reads prompts: an ``LLMConfig``, a dict, or the path of a YAML file.
        decode_config: The same model as it makes answers.
        ingress_cls_config: As in ``LLMServingArgs``.
        ingress_deployment_config: As in ``LLMServingArgs``.

    Raises:
        ValueError: They have another ``model_id``, or another engine, or vLLM has no ``kv_transfer_config``.
    """

    prefill_config: LLMConfig
    decode_config: LLMConfig
    ingress_cls_config: IngressClsConfig = Field(default_factory=IngressClsConfig)
    ingress_deployment_config: dict[str, Any] = Field(default_factory=dict)

    @field_validator("prefill_config", "decode_config", mode="before")
    @classmethod
    def _read(cls, value: Any) -> Any:
        return LLMConfig.from_file(value) if isinstance(value, str) else value

    @model_validator(mode="after")
    def _fit(self) -> Any:
        both = (self.prefill_config, self.decode_config)
        if len({one.model_id for one in both}) > 1:
            raise ValueError(
                "`prefill_config` and `decode_config` are one model: give it one `model_id`."
            )
        if len({one.engine for one in both}) > 1:
            raise ValueError("`prefill_config` and `decode_config` have one `llm_engine`.")
        for one in both:
            if one.engine == "vLLM" and one.engine_kwargs.get("kv_transfer_config") is None:
                raise ValueError(
                    "vLLM hands over what it has read by a connector: name one in `kv_transfer_config` of "
                    "`engine_kwargs`."
                )
        return self


def build_pd_openai_app(pd_serving_args: dict[str, Any] | PDServingArgs) -> Application:
    """Return an application with OpenAI's routes whose prompts are read by replicas of their own.

    Long prompts do not hold up answers that are being made, and both numbers of replicas are their own.

    Args:
        pd_serving_args: ``{"prefill_config": LLMConfig(…), "decode_config": LLMConfig(…)}``; see
            ``PDServingArgs``.

    Raises:
        ValueError: Something in it cannot be.

    Returns:
        The application, for ``serve.run`` and import paths.

    Examples:
        >>> from ray.serve.llm import LLMConfig, build_pd_openai_app
        >>> model = {"model_id": "small", "model_source": "/models/small"}
        >>> def part(replicas):
        ...     return LLMConfig(
        ...         model_loading_config=model,
        ...         llm_engine="transformers",
        ...         deployment_config={"num_replicas": replicas},
        ...     )
        >>> app = build_pd_openai_app({"prefill_config": part(1), "decode_config": part(3)})

        ``serve.run(app)`` answers at ``/v1/chat/completions``.
    """
    arguments = PDServingArgs.model_validate(pd_serving_args)
    prefill, decode = arguments.prefill_config, arguments.decode_config
    readers = _builder(prefill)(prefill, name_prefix="Prefill:", deployment_cls=PDPrefillServer)
    server = _builder(decode)(
        decode,
        name_prefix="Decode:",
        bind_kwargs={"prefill_server": readers},
        deployment_cls=PDDecodeServer,
    )
    return application_of(
        {decode.model_id: server},
        arguments.ingress_cls_config,
        arguments.ingress_deployment_config,
    )


def _builder(model: LLMConfig) -> Any:
    return (
        build_dp_deployment if "data_parallel_size" in model.engine_kwargs else build_llm_deployment
    )
