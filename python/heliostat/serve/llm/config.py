"""The configuration of served models: Pydantic models under Ray's names."""

from __future__ import annotations

import importlib.util
import os
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, field_validator, model_validator

from heliostat.core.platform.extras import required
from heliostat.serve.llm.mirror import CloudMirrorConfig, fetched
from heliostat.serve.options import attribute
from heliostat.util.engines.engine import Model

__all__ = ["LLMConfig", "LLMServingArgs", "LoraConfig", "ModelLoadingConfig"]

ENGINES = ("vLLM", "transformers")


class Strict(BaseModel):
    """A model without fields of other names."""

    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True, protected_namespaces=())


class ModelLoadingConfig(Strict):
    """The name of a model for clients, and where it is.

    Attributes:
        model_id: The name.
        model_source: A folder, a name at Hugging Face, or a ``CloudMirrorConfig``. Default: ``model_id``.
        tokenizer_source: The same of its tokenizer. Default: ``model_source``.

    Examples:
        >>> from ray.serve.llm import ModelLoadingConfig
        >>> place = ModelLoadingConfig(model_id="small", model_source="/models/small")
        >>> place.model_id
        'small'
    """

    model_id: str = Field(min_length=1)
    model_source: str | CloudMirrorConfig | None = None
    tokenizer_source: str | None = None


class LoraConfig(Strict):
    """Adapters, which Heliostat does not load: an ``LLMConfig`` with one is refused.

    Attributes:
        dynamic_lora_loading_path: Where adapters are.
        max_num_adapters_per_replica: How many a replica keeps.
        download_timeout_s: Seconds that a download may take.
        max_download_tries: How often it is tried.

    Examples:
        >>> from ray.serve.llm import LLMConfig, LoraConfig
        >>> try:
        ...     LLMConfig(
        ...         model_loading_config={"model_id": "small", "model_source": "/models/small"},
        ...         lora_config=LoraConfig(dynamic_lora_loading_path="s3://models/adapters"),
        ...     )
        ... except ValueError:
        ...     print("merge the adapter into the model, and serve that")
        merge the adapter into the model, and serve that
    """

    dynamic_lora_loading_path: str | None = None
    max_num_adapters_per_replica: PositiveInt = 16
    download_timeout_s: float | None = 30.0
    max_download_tries: int = 3


class LLMConfig(Strict):
    """A model and its replicas.

    Attributes:
        model_loading_config: Its name, and where it is.
        llm_engine: ``"vLLM"``, which is the default where it is installed, or ``"transformers"``: for
            models that are small, and on CPUs.
        engine_kwargs: Those of vLLM's ``AsyncEngineArgs``, or of ``from_pretrained`` of transformers.
        accelerator_type: Each replica takes a GPU of that kind.
        deployment_config: Options of ``@serve.deployment``.
        runtime_env: The replicas' environment.
        placement_group_config: ``{"bundles": […], "strategy": …}`` of each replica.
        lora_config: Refused.
        server_cls: A subclass of ``LLMServer``, or its import path.
        experimental_configs: Has no effect.
        log_engine_metrics: Has no effect.

    Raises:
        ValueError: Something cannot be.

    Examples:
        >>> from ray.serve.llm import LLMConfig, ModelLoadingConfig
        >>> config = LLMConfig(
        ...     model_loading_config=ModelLoadingConfig(
        ...         model_id="small", model_source="Qwen/Qwen2.5-0.5B-Instruct"
        ...     ),
        ...     llm_engine="transformers",
        ...     deployment_config={"num_replicas": 2},
        ... )
        >>> config.model_loading_config.model_id
        'small'

        ``serve.run(build_openai_app({"llm_configs": [config]}))`` serves it.
    """

    model_loading_config: ModelLoadingConfig
    llm_engine: str = ""
    engine_kwargs: dict[str, Any] = Field(default_factory=dict)
    accelerator_type: str | None = None
    deployment_config: dict[str, Any] = Field(default_factory=dict)
    runtime_env: dict[str, Any] | None = None
    placement_group_config: dict[str, Any] | None = None
    lora_config: dict[str, Any] | LoraConfig | None = None
    server_cls: Any = None
    experimental_configs: dict[str, Any] = Field(default_factory=dict)
    log_engine_metrics: bool | None = True

    @field_validator("llm_engine")
    @classmethod
    def _is_known(cls, value: str) -> str:
        if value and value not in ENGINES:
            raise ValueError(f"`llm_engine` must be one of {ENGINES}, not {value!r}.")
        return value

    @field_validator("server_cls")
    @classmethod
    def _loaded(cls, value: Any) -> Any:
        return attribute(value) if isinstance(value, str) else value

    @field_validator("lora_config")
    @classmethod
    def _has_no_adapters(cls, value: Any) -> Any:
        if value is not None:
            raise ValueError(
                "Adapters are not loaded: serve a model that has its adapter merged into it, as one with a "
                "`model_id` of its own."
            )
        return value

    @property
    def model_id(self) -> str:
        """The model's name for clients."""
        name: str = self.model_loading_config.model_id
        return name

    @property
    def source(self) -> str:
        """The place of the model; one of a cloud's storage is fetched before."""
        named = self.model_loading_config.model_source
        if isinstance(named, CloudMirrorConfig):
            return fetched(named, self.model_id)
        return str(named or self.model_id)

    @property
    def engine(self) -> str:
        """The engine, also where none is named."""
        if self.llm_engine:
            return str(self.llm_engine)
        return "vLLM" if importlib.util.find_spec("vllm") else "transformers"

    @property
    def model(self) -> Model:
        """The model, as engines load it."""
        tokenizer = self.model_loading_config.tokenizer_source
        return Model(self.source, tokenizer, self.engine, dict(self.engine_kwargs))

    @classmethod
    def from_file(cls, path: str) -> LLMConfig:
        """Return the configuration that a YAML file describes.

        Args:
            path: The file.
        """
        with open(path) as file:
            made: LLMConfig = cls.model_validate(required("yaml", "The file").safe_load(file))
        return made


class IngressClsConfig(Strict):
    """A class of one's own in place of ``OpenAiIngress``.

    Attributes:
        ingress_cls: A subclass of ``OpenAiIngress``, or its import path. Default: that class.
        ingress_extra_kwargs: Further arguments of its constructor.
    """

    ingress_cls: Any = None
    ingress_extra_kwargs: dict[str, Any] = Field(default_factory=dict)

    @field_validator("ingress_cls")
    @classmethod
    def _loaded(cls, value: Any) -> Any:
        return attribute(value) if isinstance(value, str) else value


class LLMServingArgs(Strict):
    """The arguments of ``build_openai_app``.

    Attributes:
        llm_configs: At least one, each with a ``model_id`` of its own: an ``LLMConfig``, a dict, or the
            path of a YAML file.
        ingress_deployment_config: Options of ``@serve.deployment`` for what has the routes.
        ingress_cls_config: ``{"ingress_cls": …, "ingress_extra_kwargs": {…}}``: a subclass of
            ``OpenAiIngress`` or its import path, and further arguments of its constructor.

    Examples:
        >>> from ray.serve.llm import LLMConfig, LLMServingArgs
        >>> config = LLMConfig(
        ...     model_loading_config={"model_id": "small", "model_source": "/models/small"},
        ...     llm_engine="transformers",
        ... )
        >>> arguments = LLMServingArgs(
        ...     llm_configs=[config], ingress_deployment_config={"num_replicas": 2}
        ... )
        >>> len(arguments.llm_configs)
        1
    """

    llm_configs: list[LLMConfig]
    ingress_deployment_config: dict[str, Any] = Field(default_factory=dict)
    ingress_cls_config: IngressClsConfig = Field(default_factory=IngressClsConfig)

    @field_validator("llm_configs", mode="before")
    @classmethod
    def _read(cls, value: Any) -> Any:
        for one in value:
            if isinstance(one, str) and not os.path.exists(one):
                raise ValueError(f"There is no file {one!r} with a configuration of a model.")
        return [LLMConfig.from_file(one) if isinstance(one, str) else one for one in value]

    @model_validator(mode="after")
    def _names_each_once(self) -> Any:
        names = [one.model_id for one in self.llm_configs]
        if not names:
            raise ValueError("`llm_configs` is empty: name at least one model.")
        if len({*names}) < len(names):
            raise ValueError(f"Each model needs a `model_id` of its own, not {names}.")
        return self
