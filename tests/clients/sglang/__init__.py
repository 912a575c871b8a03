"""A stand-in for ``sglang``: an engine that says prompts backwards."""

from __future__ import annotations

from typing import Any


class Engine:
    def __init__(self, *, model_path: str, **options: Any) -> None:
        self.options = options

    async def async_generate(
        self,
        prompt: str | None = None,
        input_ids: list[int] | None = None,
        *,
        sampling_params: dict[str, Any],
    ) -> dict[str, Any]:
        tokens = input_ids if input_ids is not None else list(prompt.encode())
        made = tokens[::-1][: sampling_params["max_new_tokens"]]
        about = {"finish_reason": {"type": "length"}, "prompt_tokens": len(tokens)}
        return {"text": "".join(map(chr, made)), "output_ids": made, "meta_info": about}
