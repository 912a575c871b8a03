"""Language models behind OpenAI's routes: ``build_openai_app``.

Reading order: ``config`` (what users write), ``messages`` (bodies of requests and answers), ``deployment`` (a
model's replicas), ``ingress`` (the routes). What makes text is in ``heliostat.util.engines``.
"""

from __future__ import annotations

from typing import Any

from heliostat.core.platform.extras import explained

try:
    from heliostat.serve.llm.config import (
        LLMConfig,
        LLMServingArgs,
        LoraConfig,
        ModelLoadingConfig,
    )
    from heliostat.serve.llm.deployment import LLMServer, build_dp_deployment, build_llm_deployment
    from heliostat.serve.llm.ingress import OpenAiIngress, build_dp_openai_app, build_openai_app
except ModuleNotFoundError as error:
    raise explained(error, "ray.serve.llm", "serve") from error

__all__ = [
    "LLMConfig",
    "LLMServer",
    "LLMServingArgs",
    "LoraConfig",
    "ModelLoadingConfig",
    "OpenAiIngress",
    "build_dp_deployment",
    "build_dp_openai_app",
    "build_llm_deployment",
    "build_openai_app",
]

# Ray's names that Heliostat has not: what does the same.
_ABSENT = {
    "CloudMirrorConfig": "download the model first, and name its folder as `model_source`.",
    "build_pd_openai_app": "one engine does both: use build_openai_app.",
}


def __getattr__(name: str) -> Any:
    if name in _ABSENT:
        raise AttributeError(f"serve.llm.{name} is not in Heliostat: {_ABSENT[name]}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
