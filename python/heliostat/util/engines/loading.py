"""The choice of a model's engine."""

from __future__ import annotations

from typing import Any

from heliostat.core.platform.extras import required
from heliostat.util.engines.engine import Model
from heliostat.util.engines.sglang_engine import SGLangEngine
from heliostat.util.engines.speech_engine import SpeechEngine
from heliostat.util.engines.transformers_engine import TransformersEngine
from heliostat.util.engines.vllm_engine import VLLMEngine


def load(model: Model) -> Any:
    """The engine of a model, with the model. Raises ``ImportError`` where it is missing."""
    if model.engine == "vLLM":
        return VLLMEngine(model)
    if model.engine == "SGLang":
        return SGLangEngine(model)
    if _is_of_speech(model.source):
        return SpeechEngine(model)
    return TransformersEngine(model)


def _is_of_speech(source: str) -> bool:
    """Whether a model of transformers writes down speech."""
    loaded: Any = required("transformers", "Models of transformers")
    kind = type(loaded.AutoConfig.from_pretrained(source))
    return kind in loaded.MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING
