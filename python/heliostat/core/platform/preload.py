"""Modules that take seconds to load: workers are forked from a process that has them already.

Which those are is seen from what the code of an actor's class names, or, when a driver joins, that of its
script; a library that knows better says so with the option ``_preload`` of its actors.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

LARGE = ("torch",)
# Libraries that load one of them, by the first words of their modules' names.
_LOADERS = {"ray.rllib": "torch", "heliostat.rllib": "torch"}


def mentioned(code: type | FunctionType) -> list[str]:
    """The large modules that code beside a class or function mentions: its module imports or names them."""
    module = sys.modules.get(code.__module__)
    if module is None or code.__module__.partition(".")[0] in ("heliostat", "ray"):
        return []
    return sorted(_large(_names((code, *vars(code).values(), *list(vars(module).values())))))


def expected() -> list[str]:
    """The large modules that this program's own code mentions, as far as it has been run."""
    main = sys.modules.get("__main__")
    return [] if main is None else sorted(_large(_names(list(vars(main).values()))))


def _names(values: Iterable[Any]) -> Iterator[str]:
    for value in values:
        if isinstance(value, ModuleType):
            yield value.__name__
        elif isinstance(value, FunctionType):
            yield from _code_names(value.__code__)
            yield str(value.__module__)
        elif isinstance(value, type):
            yield str(value.__module__)
            for base in value.__mro__:
                yield str(base.__module__)


def _code_names(code: CodeType) -> Iterator[str]:
    """Yield the names in a function's code, with those that it imports only as it runs."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _code_names(constant)


def _large(names: Iterable[str]) -> set[str]:
    roots = set()
    for name in names:
        root, _, rest = name.partition(".")
        roots.add(root)
        if rest:
            roots.add(_LOADERS.get(f"{root}.{rest.partition('.')[0]}", root))
    return roots.intersection(LARGE)
