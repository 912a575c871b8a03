"""Models of SGLang, for datasets."""

from __future__ import annotations

import importlib
from typing import Any

from heliostat.util.engines.engine import Completion, Model


class SGLangEngine:
    """The engine. Raises ``ImportError`` where SGLang is not installed."""

    def __init__(self, model: Model) -> None:
        try:
            package: Any = importlib.import_module("sglang")
        except ImportError as error:
            raise ImportError(
                "The engine SGLang is not installed: pip install sglang, or take another engine."
            ) from error
        self._engine = package.Engine(model_path=model.source, **model.options)

    async def complete(self, prompt: str | list[int], params: dict[str, Any]) -> Completion:
        """Complete a prompt, with SGLang's sampling parameters."""
        given = {"prompt": prompt} if isinstance(prompt, str) else {"input_ids": prompt}
        out = await self._engine.async_generate(**given, sampling_params=params)
        about = out.get("meta_info", {})
        reason = about.get("finish_reason")
        return Completion(
            prompt if isinstance(prompt, str) else "",
            [] if isinstance(prompt, str) else prompt,
            list(out.get("output_ids") or ()),
            out.get("text", ""),
            metrics=about,
            finish_reason=reason.get("type") if isinstance(reason, dict) else reason,
        )

    async def pool(self, prompt: str | list[int], task: str, params: dict[str, Any]) -> Completion:
        """Refused: datasets ask SGLang for text only.

        Raises:
            ValueError: Always.
        """
        raise ValueError(f"The engine SGLang is asked for text only, not for {task!r}.")
