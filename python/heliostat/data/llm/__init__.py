"""Batch inference: rows of a dataset go through a language model, or to a service over HTTP.

Reading order: ``configs`` (what users write), ``processor`` (the stages of a configuration), ``stages`` and
``http_stage`` (what workers do). The models are those of ``heliostat.util.engines``, which Serve answers
with, too.
"""

from __future__ import annotations

from heliostat.core.platform.extras import explained

try:
    from heliostat.data.llm.configs import (
        ChatTemplateStageConfig,
        DetokenizeStageConfig,
        HttpRequestProcessorConfig,
        HttpRequestStageConfig,
        PrepareMultimodalStageConfig,
        ProcessorConfig,
        ServeDeploymentProcessorConfig,
        SGLangEngineProcessorConfig,
        TokenizerStageConfig,
        TransformersEngineProcessorConfig,
        vLLMEngineProcessorConfig,
    )
    from heliostat.data.llm.processor import Processor, build_processor
except ModuleNotFoundError as error:
    raise explained(error, "ray.data.llm", "llm") from error

__all__ = [
    "ChatTemplateStageConfig",
    "DetokenizeStageConfig",
    "HttpRequestProcessorConfig",
    "HttpRequestStageConfig",
    "PrepareMultimodalStageConfig",
    "Processor",
    "ProcessorConfig",
    "SGLangEngineProcessorConfig",
    "ServeDeploymentProcessorConfig",
    "TokenizerStageConfig",
    "TransformersEngineProcessorConfig",
    "build_processor",
    "vLLMEngineProcessorConfig",
]
