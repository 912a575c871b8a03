"""The engines that generate text with models, and the part that they have in common."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

# Tokens of an answer whose request names no length, as OpenAI's completions have them.
TOKENS_USUAL = 16


@dataclass(frozen=True)
class Model:
    """A model and its tokenizer by their paths, and the engine that is to load it, with its options."""

    source: str
    tokenizer: str | None = None  # default: where the model is
    engine: str = "transformers"
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Sampling:
    """Settings of the drawing of an answer; ``max_tokens=None``: to the end of the model's context."""

    max_tokens: int | None = None
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int | None = None
    stops: Sequence[str] = field(default_factory=tuple)


@dataclass(frozen=True)
class Piece:
    """The part of an answer since the piece before it, and how many tokens there are in all."""

    text: str
    prompt_tokens: int
    tokens: int
    finish_reason: str | None = None  # of the last piece: `stop` or `length`


@dataclass(frozen=True)
class Completion:
    """The completion of a prompt, or the vectors that were asked for."""

    prompt: str
    prompt_tokens: list[int]
    tokens: list[int] = field(default_factory=list)
    text: str = ""
    vectors: Any = None
    metrics: dict[str, Any] | None = None
    finish_reason: str | None = None


class Batches(Protocol):
    """The methods that datasets need of an engine."""

    async def complete(self, prompt: str | list[int], params: dict[str, Any]) -> Completion:
        """Complete a text, or tokens, with parameters in the names of the engine's package."""

    async def pool(self, prompt: str | list[int], task: str, params: dict[str, Any]) -> Completion:
        """The vectors of a text, or of tokens, for a task such as "embed"."""


class Engine(Protocol):
    """A model that is loaded. ``ValueError`` is what the client is told as its own fault."""

    async def check(self) -> None:
        """Raises when it can answer nothing any more."""

    def conversation(self, messages: list[dict[str, Any]]) -> str:
        """The messages as the model expects them, with the beginning of its answer."""

    async def prefill(self, prompt: str) -> Any:
        """Return the state of a text that it has read, for ``generate`` of another engine of the model."""

    def generate(self, prompt: str, sampling: Sampling, read: Any = None) -> AsyncIterator[Piece]:
        """Yield the pieces of a completion, whose prompt another engine may have read; closing ends it."""

    async def embed(self, texts: list[str]) -> tuple[list[list[float]], int]:
        """A vector for each, and the tokens of all."""

    async def transcribe(
        self, audio: bytes, language: str | None, temperature: float
    ) -> tuple[str, float]:
        """The text of a recording, and how many seconds it has."""


class Stops:
    """Cuts an answer off at the first of its stops; keeps back what may be the beginning of one."""

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = [one for one in stops if one]
        self._kept = ""
        self.was_met = False

    def take(self, text: str, *, is_last: bool = False) -> str:
        """Return the text that may be shown, now that there is more, or now that there will be no
        more.
        """
        text = self._kept + text
        ends = [at for one in self._stops if (at := text.find(one)) >= 0]
        if ends:
            self.was_met, self._kept = True, ""
            return text[: min(ends)]
        keep = 0 if is_last else max((_overlap(text, one) for one in self._stops), default=0)
        cut = len(text) - keep
        self._kept = text[cut:]
        return text[:cut]


def _overlap(text: str, stop: str) -> int:
    """The length of the text's end that may be the beginning of a stop."""
    longest = min(len(stop) - 1, len(text))
    return next((size for size in range(longest, 0, -1) if text.endswith(stop[:size])), 0)
