"""Marks of the public API's stability, and the warning for what is going away."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, TypeVar

F = TypeVar("F")


class AnnotationType(Enum):
    """How stable a name is."""

    PUBLIC_API = "PublicAPI"
    DEVELOPER_API = "DeveloperAPI"
    DEPRECATED = "Deprecated"
    UNKNOWN = "Unknown"


class RayDeprecationWarning(DeprecationWarning):
    """Something that is used here will go; shown by default, unlike its base."""


def _marker(kind: AnnotationType, keywords: tuple[str, ...]) -> Callable[..., Any]:
    def mark(*args: Any, **kwargs: Any) -> Any:
        unknown = set(kwargs) - set(keywords)
        if unknown:
            raise ValueError(f"Unknown kwargs: {sorted(unknown)}")

        def wrap(target: F) -> F:
            target._annotated = getattr(target, "__name__", None)  # type: ignore[attr-defined]
            target._annotated_type = kind  # type: ignore[attr-defined]
            target._annotated_api_group = kwargs.get("api_group", "Others")  # type: ignore[attr-defined]
            return target

        if len(args) == 1 and not kwargs and callable(args[0]):
            return wrap(args[0])
        return wrap

    mark.__name__ = mark.__qualname__ = kind.value
    return mark


PublicAPI = _marker(AnnotationType.PUBLIC_API, ("stability", "api_group"))
DeveloperAPI = _marker(AnnotationType.DEVELOPER_API, ("stability", "api_group"))
Deprecated = _marker(AnnotationType.DEPRECATED, ("message", "warning", "api_group"))
