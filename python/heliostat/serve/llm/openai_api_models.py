"""Bodies of OpenAI's routes: those of requests, as far as they are acted upon, and of answers."""

from __future__ import annotations

import time
import uuid
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

__all__ = [
    "ChatCompletionRequest",
    "ChatCompletionResponse",
    "ChatCompletionStreamResponse",
    "CompletionRequest",
    "CompletionResponse",
    "CompletionStreamResponse",
    "EmbeddingRequest",
    "EmbeddingResponse",
    "ErrorResponse",
    "TranscriptionRequest",
    "TranscriptionResponse",
    "TranscriptionStreamResponse",
]

# Fields of OpenAI's that have no effect here, by the value that they may have nevertheless.
_WITHOUT_EFFECT = {
    "n": 1,
    "best_of": 1,
    "logprobs": (None, False, 0),
    "echo": False,
    "suffix": None,
}


def new_id(kind: str) -> str:
    """An id for an answer."""
    return f"{kind}-{uuid.uuid4().hex}"


class _Body(BaseModel):
    model_config = ConfigDict(extra="allow", protected_namespaces=())


class StreamOptions(_Body):
    """``include_usage``: whether the last piece of a stream says how many tokens there were."""

    include_usage: bool = False


class _Request(_Body):
    """The fields that requests for text have in common. Times have no part in it; lengths are in
    tokens.
    """

    model: str | None = None
    stream: bool = False
    stream_options: StreamOptions | None = None
    max_tokens: int | None = Field(None, ge=1)
    temperature: float | None = Field(None, ge=0, le=2)
    top_p: float | None = Field(None, gt=0, le=1)
    top_k: int | None = None
    seed: int | None = None
    stop: str | list[str] | None = None

    @model_validator(mode="after")
    def _asks_for_what_there_is(self) -> Any:
        for name, usual in _WITHOUT_EFFECT.items():
            given = getattr(self, name, None)
            if (
                given is not None
                and given != usual
                and not (isinstance(usual, tuple) and given in usual)
            ):
                raise ValueError(f"`{name}` has no effect here: leave it out.")
        return self

    @property
    def stops(self) -> list[str]:
        """Texts that end an answer, and are not part of it."""
        given = self.stop or []
        return [given] if isinstance(given, str) else list(given)


class ChatMessage(_Body):
    """A message of a conversation."""

    role: str
    content: str | list[dict[str, Any]] | None = None

    def text(self) -> str:
        """The message's text, its parts joined. Raises ``ValueError`` for others than text."""
        if not isinstance(self.content, list):
            return self.content or ""
        kinds = {part.get("type") for part in self.content} - {"text"}
        if kinds:
            raise ValueError(f"Messages have text alone, not {sorted(map(str, kinds))}.")
        return "".join(str(part["text"]) for part in self.content)


class ChatCompletionRequest(_Request):
    """``POST /v1/chat/completions``."""

    messages: list[ChatMessage] = Field(min_length=1)
    max_completion_tokens: int | None = Field(None, ge=1)


class CompletionRequest(_Request):
    """``POST /v1/completions``."""

    prompt: str | list[str] = Field(min_length=1)

    @property
    def prompts(self) -> list[str]:
        """Each has an answer of its own."""
        return [self.prompt] if isinstance(self.prompt, str) else list(self.prompt)


class EmbeddingRequest(_Body):
    """``POST /v1/embeddings``."""

    model: str | None = None
    input: str | list[str] = Field(min_length=1)
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: int | None = Field(None, ge=1)

    @property
    def inputs(self) -> list[str]:
        """Each has a vector of its own."""
        return [self.input] if isinstance(self.input, str) else list(self.input)


class Usage(_Body):
    """Tokens of a request and of its answer."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    total_tokens: int = 0


class _Answer(_Body):
    id: str
    created: int = Field(default_factory=lambda: int(time.time()))
    model: str


class ChatChoice(_Body):
    """An answer of a model in a conversation."""

    index: int
    message: ChatMessage
    finish_reason: str | None = None


class ChatCompletionResponse(_Answer):
    """The answer to a chat."""

    object: str = "chat.completion"
    choices: list[ChatChoice]
    usage: Usage


class ChatDelta(_Body):
    """The part of an answer since the piece before."""

    role: str | None = None
    content: str | None = None


class ChatPiece(_Body):
    """A piece of an answer in a conversation."""

    index: int
    delta: ChatDelta
    finish_reason: str | None = None


class ChatCompletionStreamResponse(_Answer):
    """A piece of the answer to a chat."""

    object: str = "chat.completion.chunk"
    choices: list[ChatPiece]
    usage: Usage | None = None


class CompletionChoice(_Body):
    """A completion of a text."""

    index: int
    text: str
    finish_reason: str | None = None


class CompletionResponse(_Answer):
    """The answer to a completion."""

    object: str = "text_completion"
    choices: list[CompletionChoice]
    usage: Usage


class CompletionStreamResponse(_Answer):
    """A piece of the answer to a completion."""

    object: str = "text_completion"
    choices: list[CompletionChoice]
    usage: Usage | None = None


class Embedding(_Body):
    """A vector, as numbers or as base64 of 32-bit ones."""

    index: int
    object: str = "embedding"
    embedding: list[float] | str


class EmbeddingResponse(_Answer):
    """The answer to a request for vectors."""

    object: str = "list"
    data: list[Embedding]
    usage: Usage


class TranscriptionRequest(_Body):
    """``POST /v1/audio/transcriptions``: the fields of the form, and the file's bytes."""

    model: str | None = None
    file: bytes
    language: str | None = None
    prompt: str | None = None
    response_format: Literal["json", "text", "verbose_json"] = "json"
    temperature: float = Field(0.0, ge=0, le=1)
    stream: bool = False


class TranscriptionResponse(_Body):
    """The text of a recording, and its length in seconds."""

    text: str
    usage: dict[str, Any] | None = None


class TranscriptionStreamResponse(_Body):
    """A piece of the text of a recording: there is one."""

    id: str
    object: str = "transcription.chunk"
    created: int = Field(default_factory=lambda: int(time.time()))
    model: str
    choices: list[dict[str, Any]]


class ErrorInfo(_Body):
    """The error of a request."""

    message: str
    type: str
    param: str | None = None
    code: int


class ErrorResponse(_Body):
    """The answer to a request that cannot be."""

    error: ErrorInfo
