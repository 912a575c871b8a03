"""Marks of the public API's stability, and the warning for what is going away."""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Callable
from enum import Enum
from typing import Any, TypeVar

F = TypeVar("F")


class AnnotationType(Enum):
    """The stability of a public name.

    Examples:
        >>> from ray.util.annotations import AnnotationType, PublicAPI
        >>> @PublicAPI
        ... def work():
        ...     pass
        >>> work._annotated_type is AnnotationType.PUBLIC_API
        True
    """

    PUBLIC_API = "PublicAPI"
    DEVELOPER_API = "DeveloperAPI"
    DEPRECATED = "Deprecated"
    UNKNOWN = "Unknown"


class RayDeprecationWarning(DeprecationWarning):
    """Something that is used here will go; shown by default, unlike its base.

    Examples:
        >>> import warnings
        >>> from ray.util.annotations import RayDeprecationWarning
        >>> warnings.simplefilter("ignore", RayDeprecationWarning)  # until the program is changed
        >>> warnings.simplefilter("default", RayDeprecationWarning)
    """


if not sys.warnoptions:
    # Once for each module that uses something deprecated.
    warnings.filterwarnings("module", category=RayDeprecationWarning)


def _warning(target: Any, message: str | None) -> Any:
    """Wrap a deprecated function or class so that each call warns."""
    text = (
        "This API is deprecated and may be removed in future releases. The warning is suppressed by "
        'PYTHONWARNINGS="ignore::DeprecationWarning".'
    )
    if message is not None:
        text += f"\n{message}"

    def warned(call: Any) -> Any:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            warnings.warn(text, RayDeprecationWarning, stacklevel=2)
            return call(*args, **kwargs)

        return functools.wraps(call)(wrapper) if callable(call) else wrapper

    if isinstance(target, type):
        target.__init__ = warned(target.__init__)  # type: ignore[misc] # replaced, not called
        return target
    return warned(target)


def _marker(kind: AnnotationType, keywords: tuple[str, ...]) -> Callable[..., Any]:
    def mark(*args: Any, **kwargs: Any) -> Any:
        """Mark a function or a class, with or without parentheses; what it does stays the same.

        Args:
            *args: The function or class, when there are no parentheses.
            **kwargs: ``stability``, ``api_group``; of ``Deprecated``: ``message``, ``warning`` (True: a
                call warns) and ``api_group``.

        Returns:
            The function or class, or a decorator of it.

        Raises:
            ValueError: A keyword is unknown.

        Examples:
            >>> from ray.util.annotations import Deprecated, DeveloperAPI, PublicAPI
            >>> @PublicAPI(stability="beta")
            ... def load(path):
            ...     return path
            >>> @DeveloperAPI
            ... def parse(text):
            ...     return text
            >>> @Deprecated(message="Use load.", warning=True)  # a call warns, and says so
            ... def read(path):
            ...     return load(path)
        """
        unknown = set(kwargs) - set(keywords)
        if unknown:
            raise ValueError(f"Unknown kwargs: {sorted(unknown)}")

        def wrap(target: Any) -> Any:
            target._annotated = getattr(target, "__name__", None)
            target._annotated_type = kind
            target._annotated_api_group = kwargs.get("api_group", "Others")
            if kwargs.get("warning"):
                return _warning(target, kwargs.get("message"))
            return target

        if len(args) == 1 and not kwargs and callable(args[0]):
            return wrap(args[0])
        return wrap

    mark.__name__ = mark.__qualname__ = kind.value
    return mark


PublicAPI = _marker(AnnotationType.PUBLIC_API, ("stability", "api_group"))
"""A decorator: the name is for programs, and stays. Takes ``stability`` and ``api_group``."""
DeveloperAPI = _marker(AnnotationType.DEVELOPER_API, ("stability", "api_group"))
"""A decorator: the name is for libraries, and may change. Takes ``stability`` and ``api_group``."""
Deprecated = _marker(AnnotationType.DEPRECATED, ("message", "warning", "api_group"))
"""A decorator: the name will go. With ``warning=True`` a call warns, and says the ``message``."""
