"""Names of RLlib's old API stack: what takes their place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def sentence(name: str, instead: str) -> str:
    """The sentence that refuses a name of the old API stack, and says what to use in its place."""
    return f"{name} is of RLlib's old API stack, which Heliostat does not have: use {instead}."


def refusing(module: str, instead: dict[str, str], otherwise: str) -> Callable[[str], Any]:
    """The ``__getattr__`` of a module of the old API stack.

    Args:
        module: The module's path below ``ray``.
        instead: By name, what takes its place.
        otherwise: What takes the place of every other.
    """

    def find(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise AttributeError(sentence(f"ray.{module}.{name}", instead.get(name, otherwise)))

    return find
