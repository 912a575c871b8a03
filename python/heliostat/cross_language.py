"""Functions and actor classes of other languages, by name: none of them is supported."""

from __future__ import annotations

from heliostat.core.calls.cross_language import (
    cpp_actor_class,
    cpp_function,
    java_actor_class,
    java_function,
)

__all__ = ["cpp_actor_class", "cpp_function", "java_actor_class", "java_function"]
