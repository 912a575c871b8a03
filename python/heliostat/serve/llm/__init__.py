"""Language models behind OpenAI's routes: ``build_openai_app``.

Reading order: ``config`` (what users write), ``openai_api_models`` (bodies of requests and answers),
``deployment`` (a model's replicas), ``ingress`` (the routes), ``prefill_decode`` (two kinds of replicas),
``mirror``. What makes text is in ``heliostat.util.engines``.
"""

from __future__ import annotations

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
    from heliostat.serve.llm.mirror import CloudMirrorConfig
    from heliostat.serve.llm.prefill_decode import build_pd_openai_app
except ModuleNotFoundError as error:
    raise explained(error, "ray.serve.llm", "serve") from error

__all__ = [
    "CloudMirrorConfig",
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
    "build_pd_openai_app",
]
