"""The configuration of batch inference: Pydantic models under Ray's names."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import IO, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, field_validator

from heliostat.core.platform.extras import required
from heliostat.util.engines.engine import Model

TASKS = ("generate", "embed", "classify", "score")
ERROR = "__inference_error__"  # the column of ``should_continue_on_error``

Concurrency = int | tuple[int, int]


def _workers(value: Concurrency | None) -> Concurrency | None:
    """A number of workers, or the least and the most of them.

    Raises:
        ValueError: It is neither.
    """
    if value is None:
        return None
    several = value if isinstance(value, tuple) else (value, value)
    if min(several) < 1 or several[0] > several[1]:
        raise ValueError(
            f"concurrency is {value!r}: it is a number from 1 on, or (least, most) of workers."
        )
    return value


C = TypeVar("C", bound="_Config")


class _Config(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        arbitrary_types_allowed=True,
        protected_namespaces=(),
        validate_assignment=True,
    )

    @classmethod
    def parse_yaml(cls: type[C], file: str | bytes | IO[str] | IO[bytes], **kwargs: object) -> C:
        """Return the configuration that a text of YAML holds.

        Args:
            file: The text, or an open file.
            **kwargs: ``Loader``, of the package ``yaml``. Default: its ``SafeLoader``.

        Raises:
            ValidationError: A field is unknown, or has a wrong value.
        """
        yaml = required("yaml", "Configurations in YAML")
        made: C = cls.model_validate(yaml.load(file, **{"Loader": yaml.SafeLoader, **kwargs}))
        return made

    @classmethod
    def from_file(cls: type[C], path: str | os.PathLike[str], **kwargs: object) -> C:
        """Return the configuration that a file of YAML holds.

        Args:
            path: The file's path.
            **kwargs: As of :meth:`parse_yaml`.

        Raises:
            FileNotFoundError: There is no such file.
            ValidationError: A field is unknown, or has a wrong value.
        """
        with open(path, encoding="utf-8") as file:
            return cls.parse_yaml(file, **kwargs)


class _StageConfig(_Config):
    """A stage of a processor. What is not given is as the processor says.

    Attributes:
        enabled: The stage is there.
        batch_size: Rows that go through it together.
        concurrency: Its workers, or (least, most).
        runtime_env: The workers' environment.
        num_cpus: CPUs of each worker.
        memory: Bytes of heap of each worker.
    """

    enabled: bool = True
    batch_size: int | None = Field(default=None, ge=1)
    concurrency: Concurrency | None = None
    runtime_env: dict[str, object] | None = None
    num_cpus: float | None = Field(default=None, ge=0)
    memory: float | None = Field(default=None, ge=0)

    _are_workers = field_validator("concurrency")(_workers)


class ChatTemplateStageConfig(_StageConfig):
    """The stage that makes a "prompt" of "messages".

    Attributes:
        model_source: Whose tokenizer has the template. Default: the processor's.
        chat_template: Another template.
        chat_template_kwargs: Variables of it.

    Examples:
        >>> from ray.data.llm import ChatTemplateStageConfig, TransformersEngineProcessorConfig
        >>> config = TransformersEngineProcessorConfig(
        ...     model_source="/models/small",
        ...     chat_template_stage=ChatTemplateStageConfig(
        ...         chat_template_kwargs={"enable_thinking": False}
        ...     ),
        ... )
    """

    model_source: str | None = None
    chat_template: str | None = None
    chat_template_kwargs: dict[str, object] | None = None


class TokenizerStageConfig(_StageConfig):
    """The stage that makes "tokenized_prompt" of a "prompt".

    Attributes:
        model_source: Whose tokenizer. Default: the processor's.

    Examples:
        >>> from ray.data.llm import TokenizerStageConfig, TransformersEngineProcessorConfig
        >>> config = TransformersEngineProcessorConfig(
        ...     model_source="/models/small",
        ...     tokenize_stage=TokenizerStageConfig(model_source="/models/tokenizer"),
        ... )
    """

    model_source: str | None = None


class DetokenizeStageConfig(_StageConfig):
    """The stage that makes "generated_text" of "generated_tokens".

    Attributes:
        model_source: Whose tokenizer. Default: the processor's.

    Examples:
        >>> from ray.data.llm import DetokenizeStageConfig, TransformersEngineProcessorConfig
        >>> config = TransformersEngineProcessorConfig(
        ...     model_source="/models/small",
        ...     detokenize_stage=DetokenizeStageConfig(model_source="/models/tokenizer"),
        ... )
    """

    model_source: str | None = None


class PrepareMultimodalStageConfig(_StageConfig):
    """Pictures and sounds in messages. They are not prepared here: a processor refuses this stage.

    Attributes:
        model_config_kwargs: Has no effect.
        chat_template_content_format: Has no effect.
        apply_sys_msg_formatting: Has no effect.

    Examples:
        >>> from ray.data.llm import PrepareMultimodalStageConfig
        >>> PrepareMultimodalStageConfig(enabled=False).enabled  # the only value that is not refused
        False
    """

    model_config_kwargs: dict[str, object] | None = None
    chat_template_content_format: Literal["string", "openai"] | None = "string"
    apply_sys_msg_formatting: bool | None = False


class HttpRequestStageConfig(_StageConfig):
    """The stage that sends requests.

    Examples:
        >>> from ray.data.llm import HttpRequestProcessorConfig, HttpRequestStageConfig
        >>> config = HttpRequestProcessorConfig(
        ...     url="http://localhost:8000",
        ...     http_request_stage=HttpRequestStageConfig(batch_size=16, concurrency=2),
        ... )
        >>> config.http_request_stage.batch_size
        16
    """


class ProcessorConfig(_Config):
    """The options of all processors.

    Attributes:
        batch_size: Rows that go through a stage together. Default 32.
        accelerator_type: The kind of GPU of a worker with a model.
        concurrency: Workers of a stage, or (least, most). Default 1.

    Raises:
        ValueError: A value cannot be.

    Examples:
        >>> from ray.data.llm import HttpRequestProcessorConfig, ProcessorConfig
        >>> config = HttpRequestProcessorConfig(url="http://localhost:8000", concurrency=4)
        >>> isinstance(config, ProcessorConfig), config.concurrency
        (True, 4)
    """

    batch_size: int = Field(default=32, ge=1)
    accelerator_type: str | None = None
    concurrency: Concurrency = 1

    _are_workers = field_validator("concurrency")(_workers)


class HttpRequestProcessorConfig(ProcessorConfig):
    """Requests to a service, one for each row: its column "payload" becomes the column "http_response".

    Attributes:
        batch_size: Rows that go through a stage together. Default 64.
        url: Where requests go.
        headers: Of the requests.
        qps: Requests a second at most, of all workers together, which then are under way at the same
            time. Default ``None``: one after the other in each worker.
        max_retries: How often a request is sent again after 408, 429, 502, 503, 504 or a connection
            that broke. Default 0.
        base_retry_wait_time_in_s: Seconds of the first pause before that; they double. Default 1.
        session_factory: Makes an ``aiohttp.ClientSession``, for timeouts and proxies.
        http_request_stage: The stage, or False.

    Examples:
        >>> from ray.data.llm import HttpRequestProcessorConfig
        >>> config = HttpRequestProcessorConfig(
        ...     url="http://localhost:8000/classify", qps=10, max_retries=3, concurrency=2
        ... )
        >>> config.batch_size
        64
    """

    batch_size: int = Field(default=64, ge=1)
    url: str
    headers: dict[str, object] | None = None
    qps: float | None = Field(default=None, gt=0)
    max_retries: int = Field(default=0, ge=0)
    base_retry_wait_time_in_s: float = Field(default=1, ge=0)
    session_factory: Callable[[], object] | None = Field(default=None, exclude=True)
    http_request_stage: bool | dict[str, object] | HttpRequestStageConfig = True


class ServeDeploymentProcessorConfig(ProcessorConfig):
    """Calls of a deployment of Serve, one for each row.

    A row has "method", "request_kwargs" and, where ``dtype_mapping`` is given, "dtype": the name of the
    class in it that is made of them. What the call gives is added to the row.

    Attributes:
        deployment_name: The deployment.
        app_name: Its application. Default "default".
        dtype_mapping: Classes by name, of which arguments are made.
        should_continue_on_error: Rows that fail have the column "__inference_error__", instead of the
            dataset failing. Default False.
        request_timeout_s: Seconds that one call may take. Default: any.

    Examples:
        >>> from ray.data.llm import ServeDeploymentProcessorConfig, build_processor
        >>> processor = build_processor(
        ...     ServeDeploymentProcessorConfig(deployment_name="Labeler", app_name="labels"),
        ...     preprocess=lambda row: {"method": "label", "request_kwargs": {"text": row["text"]}},
        ... )
        >>> processor.list_stage_names()
        ['ServeDeploymentStage']
    """

    deployment_name: str
    app_name: str = "default"
    dtype_mapping: dict[str, object] | None = None
    should_continue_on_error: bool = False
    request_timeout_s: float | None = Field(default=None, gt=0)


class _OfflineConfig(ProcessorConfig):
    """

    Attributes:
        model_source: A folder, or a name at Hugging Face.
        runtime_env: The workers' environment.
        max_pending_requests: Rows that are with the engine at the same time.
        max_concurrent_batches: Batches that a worker has at the same time.
        max_tasks_in_flight_per_actor: Batches that wait at a worker at most.
        should_continue_on_error: Rows that fail have the column "__inference_error__", and the others
            an empty one. Default False.
        chat_template_stage: The stage that makes prompts of messages, or False.
        tokenize_stage: The stage that makes tokens of prompts, or False.
        detokenize_stage: The stage that makes texts of tokens, or False.
        prepare_multimodal_stage: Refused.
        engine_kwargs: Arguments of the engine, in its own names.
        task_type: What the model does. Default ``"generate"``.
        placement_group_config: "bundles" or "bundle_per_worker", of which the GPUs count.
    """

    model_source: str
    runtime_env: dict[str, object] | None = None
    max_pending_requests: int | None = Field(default=None, ge=1)
    max_concurrent_batches: int = Field(default=8, ge=1)
    max_tasks_in_flight_per_actor: int | None = Field(default=None, ge=1)
    should_continue_on_error: bool = False
    chat_template_stage: bool | dict[str, object] | ChatTemplateStageConfig = True
    tokenize_stage: bool | dict[str, object] | TokenizerStageConfig = True
    detokenize_stage: bool | dict[str, object] | DetokenizeStageConfig = True
    prepare_multimodal_stage: bool | dict[str, object] | PrepareMultimodalStageConfig = False
    engine_kwargs: dict[str, Any] = Field(default_factory=dict)
    task_type: str = "generate"
    placement_group_config: dict[str, Any] | None = None

    @field_validator("task_type")
    @classmethod
    def _is_known(cls, value: Any) -> Any:
        if value not in TASKS:
            raise ValueError(f"Invalid task type: {value}; there are {TASKS}.")
        return value

    @property
    def model(self) -> Model:
        """The model, as engines load it."""
        return Model(self.model_source, None, self._engine(), dict(self.engine_kwargs))

    @property
    def gpus(self) -> float:
        """GPUs of each worker with the model."""
        if self.placement_group_config:
            bundles = self.placement_group_config.get("bundles")
            each = self.placement_group_config.get("bundle_per_worker")
            if bundles is None and each is not None:
                bundles = [each] * self._parts()
            return float(sum(one.get("GPU", 0) for one in bundles or ()))
        return float(self._parts())

    def _parts(self) -> int:
        """Processes of an engine, each with a GPU."""
        given = self.engine_kwargs
        sizes = [given.get(f"{way}_parallel_size", 1) for way in ("tensor", "pipeline")]
        return int(sizes[0] * sizes[1])

    def _engine(self) -> str:
        raise NotImplementedError


class vLLMEngineProcessorConfig(_OfflineConfig):  # Ray's name
    """A model of vLLM, which has to be installed.

    A row has "messages" (or "prompt", where ``chat_template_stage=False``) and "sampling_params", in the
    names of vLLM; added are "prompt", "generated_text", "generated_tokens", "num_input_tokens",
    "num_generated_tokens" and more; with ``task_type`` "embed", "classify" or "score", "embeddings". Each
    worker has a GPU for each part of the model.

    Attributes:
        log_engine_metrics: Log the engine's figures. Default True.
        dynamic_lora_loading_path: Refused: name a model that has its adapter merged into it.

    Examples:
        >>> from ray.data.llm import build_processor, vLLMEngineProcessorConfig
        >>> config = vLLMEngineProcessorConfig(
        ...     model_source="Qwen/Qwen2.5-0.5B-Instruct",
        ...     engine_kwargs={"max_model_len": 4096, "tensor_parallel_size": 2},
        ...     concurrency=4,  # workers, each with two GPUs
        ...     batch_size=64,
        ... )
        >>> def summaries(dataset):
        ...     processor = build_processor(
        ...         config,
        ...         preprocess=lambda row: {
        ...             "messages": [{"role": "user", "content": f"Summarize: {row['text']}"}],
        ...             "sampling_params": {"max_tokens": 100},
        ...         },
        ...         postprocess=lambda row: {"summary": row["generated_text"]},
        ...     )
        ...     return processor(dataset)
    """

    log_engine_metrics: bool = True
    dynamic_lora_loading_path: str | None = None

    @field_validator("dynamic_lora_loading_path")
    @classmethod
    def _has_no_adapters(cls, value: Any) -> Any:
        if value is not None:
            raise ValueError(
                "Adapters are not loaded: name a model that has its adapter merged into it."
            )
        return value

    def _engine(self) -> str:
        return "vLLM"


class SGLangEngineProcessorConfig(_OfflineConfig):
    """A model of SGLang, which has to be installed; see ``vLLMEngineProcessorConfig``. It makes text only.

    Examples:
        >>> from ray.data.llm import SGLangEngineProcessorConfig
        >>> config = SGLangEngineProcessorConfig(
        ...     model_source="Qwen/Qwen2.5-0.5B-Instruct", engine_kwargs={"tp_size": 2}, concurrency=4
        ... )
        >>> config.task_type
        'generate'
    """

    @field_validator("task_type")
    @classmethod
    def _is_text(cls, value: Any) -> Any:
        if value != "generate":
            raise ValueError(f"Invalid task type: {value}; SGLang is asked for 'generate' only.")
        return value

    def _parts(self) -> int:
        given = self.engine_kwargs
        return int(given.get("tp_size", 1) * given.get("pp_size", 1))

    def _engine(self) -> str:
        return "SGLang"


class TransformersEngineProcessorConfig(_OfflineConfig):
    """A model of transformers, for small ones and for CPUs; Heliostat's own.

    As ``vLLMEngineProcessorConfig``; ``engine_kwargs``: those of ``from_pretrained``. Workers have a GPU
    where ``accelerator_type`` or ``placement_group_config`` says so. ``task_type``: "generate" or "embed".

    Examples:
        >>> from ray.data.llm import TransformersEngineProcessorConfig, build_processor
        >>> config = TransformersEngineProcessorConfig(
        ...     model_source="Qwen/Qwen2.5-0.5B-Instruct", batch_size=8
        ... )
        >>> def answers(dataset):  # on CPUs
        ...     processor = build_processor(
        ...         config,
        ...         preprocess=lambda row: {
        ...             "messages": [{"role": "user", "content": row["question"]}],
        ...             "sampling_params": {"max_tokens": 20},
        ...         },
        ...         postprocess=lambda row: {"answer": row["generated_text"]},
        ...     )
        ...     return processor(dataset)
    """

    @field_validator("task_type")
    @classmethod
    def _is_text_or_vectors(cls, value: Any) -> Any:
        if value not in ("generate", "embed"):
            raise ValueError(
                f"Invalid task type: {value}; transformers does 'generate' and 'embed'."
            )
        return value

    def _parts(self) -> int:
        return int(self.accelerator_type is not None)

    def _engine(self) -> str:
        return "transformers"
