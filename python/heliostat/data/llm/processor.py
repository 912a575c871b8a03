"""``build_processor``: the stages of a configuration, as steps of a dataset."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from heliostat.data.dataset import Dataset
from heliostat.data.llm import configs, stages
from heliostat.data.llm.http_stage import HttpRequestStage

if TYPE_CHECKING:
    from heliostat.data.aliases import RemoteArgs, Row


S = TypeVar("S", bound=configs._StageConfig)


@dataclass
class StageStep:
    """A stage, and the options of ``map_batches`` that it runs with."""

    fn: type[stages.Stage]
    fn_constructor_kwargs: dict[str, object]
    map_batches_kwargs: RemoteArgs = field(default_factory=dict)


class Processor:
    """The result of ``build_processor``: call it with a dataset.

    Args:
        config: What rows go through.
        steps: The stages.
        preprocess: Makes the columns that the stages need.
        postprocess: Makes the row of the result.
        preprocess_map_kwargs: Options of ``Dataset.map`` for the former.
        postprocess_map_kwargs: Options of ``Dataset.map`` for the latter.

    Examples:
        >>> from ray.data.llm import HttpRequestProcessorConfig, Processor, build_processor
        >>> processor = build_processor(
        ...     HttpRequestProcessorConfig(url="http://localhost:8000/label"),
        ...     preprocess=lambda row: {"payload": {"text": row["text"]}},
        ...     postprocess=lambda row: {"label": row["http_response"]["label"]},
        ... )
        >>> isinstance(processor, Processor), processor.list_stage_names()
        (True, ['HttpRequestStage'])

        ``processor(dataset)`` gives the dataset of the answers.
    """

    def __init__(
        self,
        config: configs.ProcessorConfig,
        steps: list[StageStep],
        preprocess: Callable[[Row], Row] | None = None,
        postprocess: Callable[[Row], Row] | None = None,
        preprocess_map_kwargs: RemoteArgs | None = None,
        postprocess_map_kwargs: RemoteArgs | None = None,
    ) -> None:
        self.config = config
        self.stages = {step.fn.__name__: step for step in steps}
        has_errors = bool(getattr(config, "should_continue_on_error", False))
        self._before, self._after = stages.Before(preprocess), stages.After(postprocess, has_errors)
        self._options = dict(preprocess_map_kwargs or {}), dict(postprocess_map_kwargs or {})

    def __call__(self, dataset: Dataset) -> Dataset:
        """Return the dataset of what comes of its rows. Nothing runs yet.

        Raises:
            ray.exceptions.RayTaskError: While executing: a row lacks a column that a stage needs, or fails,
                and ``should_continue_on_error`` is False.
        """
        found = dataset.map(self._before, **self._options[0])
        for step in self.stages.values():
            found = found.map_batches(
                step.fn,
                fn_constructor_kwargs=step.fn_constructor_kwargs,
                batch_format="numpy",
                udf_modifying_row_count=False,
                **step.map_batches_kwargs,
            )
        return found.map(self._after, **self._options[1])

    def list_stage_names(self) -> list[str]:
        """Return the names of the stages, in order."""
        return list(self.stages)

    def get_stage_by_name(self, name: str) -> StageStep:
        """Return a stage.

        Args:
            name: The stage's name.

        Raises:
            ValueError: There is no such.
        """
        if name not in self.stages:
            raise ValueError(f"Stage {name} not found; there are {list(self.stages)}.")
        return self.stages[name]


def build_processor(
    config: configs.ProcessorConfig,
    preprocess: Callable[[Row], Row] | None = None,
    postprocess: Callable[[Row], Row] | None = None,
    preprocess_map_kwargs: RemoteArgs | None = None,
    postprocess_map_kwargs: RemoteArgs | None = None,
    builder_kwargs: dict[str, Callable[[str, StageStep], object]] | None = None,
) -> Processor:
    """Return a processor: what sends the rows of a dataset through a model or to a service.

    Args:
        config: What rows go through: a configuration of this module.
        preprocess: Gives, for a row, the columns that the stages need, such as "messages" and
            "sampling_params", or "payload". They are added to the row. Default: the rows have them.
        postprocess: Gives, for a row with what the stages added, the row of the result. Default: all columns.
        preprocess_map_kwargs: Options of ``Dataset.map`` for the former.
        postprocess_map_kwargs: Options of ``Dataset.map`` for the latter.
        builder_kwargs: ``override_stage_config_fn``: a function of a stage's name and the stage, called for
            each, which may change it.

    Raises:
        TypeError: ``config`` is not a configuration of this module.
        ValueError: A stage cannot be left out or is not there, or ``builder_kwargs`` has other names.

    Examples:
        >>> from ray.data.llm import HttpRequestProcessorConfig, build_processor
        >>> processor = build_processor(
        ...     HttpRequestProcessorConfig(url="http://localhost:8000/classify", qps=10),
        ...     preprocess=lambda row: {"payload": {"text": row["text"]}},
        ...     postprocess=lambda row: {"label": row["http_response"]["label"]},
        ... )
        >>> processor.list_stage_names()
        ['HttpRequestStage']

        ``processor(dataset)`` gives the dataset of the answers.
    """
    more = dict(builder_kwargs or {})
    override = more.pop("override_stage_config_fn", None)
    if more:
        raise ValueError(
            f"builder_kwargs cannot contain {set(more)}: there is 'override_stage_config_fn' only; the "
            "others are arguments of build_processor."
        )
    processor = Processor(
        config,
        _steps(config),
        preprocess,
        postprocess,
        preprocess_map_kwargs,
        postprocess_map_kwargs,
    )
    if override is not None:
        for name, step in processor.stages.items():
            override(name, step)
    return processor


def _steps(config: configs.ProcessorConfig) -> list[StageStep]:
    if isinstance(config, configs.HttpRequestProcessorConfig):
        return [_of_http(config)]
    if isinstance(config, configs.ServeDeploymentProcessorConfig):
        given: dict[str, object] = {
            "deployment": config.deployment_name,
            "app": config.app_name,
            "kinds": config.dtype_mapping,
            "goes_on": config.should_continue_on_error,
            "timeout_s": config.request_timeout_s,
        }
        return [StageStep(stages.ServeDeploymentStage, given, _sizes(config))]
    if isinstance(config, configs._OfflineConfig):
        return _of_engine(config)
    raise TypeError(
        f"config is a {type(config).__name__}: it has to be one of ray.data.llm, such as "
        "vLLMEngineProcessorConfig."
    )


def _of_http(config: configs.HttpRequestProcessorConfig) -> StageStep:
    about = _stage(config.http_request_stage, configs.HttpRequestStageConfig)
    if not about.enabled:
        raise ValueError(
            "The HTTP request stage is required and cannot be disabled in HttpRequestProcessorConfig."
        )
    sizes = _sizes(config, about)
    workers = sizes["concurrency"]
    most = workers[1] if isinstance(workers, tuple) else workers
    given: dict[str, object] = {
        "url": config.url,
        "headers": config.headers,
        "interval_s": None if config.qps is None else most / config.qps,
        "retries_max": config.max_retries,
        "wait_s": config.base_retry_wait_time_in_s,
        "session": config.session_factory,
    }
    return StageStep(HttpRequestStage, given, sizes)


def _of_engine(config: configs._OfflineConfig) -> list[StageStep]:
    if _stage(config.prepare_multimodal_stage, configs.PrepareMultimodalStageConfig).enabled:
        raise ValueError(
            "prepare_multimodal_stage: pictures and sounds in messages are not prepared here. A model that "
            "takes them can be served (ray.serve), and called with HttpRequestProcessorConfig."
        )
    steps = []
    given: dict[str, object]
    template = _stage(config.chat_template_stage, configs.ChatTemplateStageConfig)
    tokenize = _stage(config.tokenize_stage, configs.TokenizerStageConfig)
    detokenize = _stage(config.detokenize_stage, configs.DetokenizeStageConfig)
    if template.enabled:
        given = {
            "model": template.model_source or config.model_source,
            "template": template.chat_template,
            "variables": template.chat_template_kwargs,
        }
        steps.append(StageStep(stages.ChatTemplateStage, given, _sizes(config, template)))
    if tokenize.enabled:
        given = {"model": tokenize.model_source or config.model_source}
        steps.append(StageStep(stages.TokenizeStage, given, _sizes(config, tokenize)))
    given = {
        "model": config.model,
        "task": config.task_type,
        "pending_max": config.max_pending_requests,
        "goes_on": config.should_continue_on_error,
    }
    options = _sizes(config)
    if config.gpus:
        options["num_gpus"] = config.gpus
    if config.accelerator_type is not None:
        options["accelerator_type"] = config.accelerator_type
    if config.runtime_env is not None:
        options["runtime_env"] = config.runtime_env
    steps.append(StageStep(stages.EngineStage, given, options))
    if detokenize.enabled and config.task_type == "generate":
        given = {"model": detokenize.model_source or config.model_source}
        steps.append(StageStep(stages.DetokenizeStage, given, _sizes(config, detokenize)))
    return steps


def _stage(given: bool | dict[str, object] | S, kind: type[S]) -> S:
    """The configuration of a stage that was given as a bool, a dict or itself."""
    if isinstance(given, bool):
        return kind(enabled=given)
    return kind(**given) if isinstance(given, dict) else given


def _sizes(config: configs.ProcessorConfig, stage: object = None) -> RemoteArgs:
    """Options of ``map_batches``: of the stage, else of the processor."""
    options: RemoteArgs = {
        "batch_size": getattr(stage, "batch_size", None) or config.batch_size,
        "concurrency": getattr(stage, "concurrency", None) or config.concurrency,
    }
    for name in ("runtime_env", "num_cpus", "memory"):
        value = getattr(stage, name, None)
        if value is not None:
            options[name] = value
    return options
