"""Options that all readers take, and what is said of those that they do not."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from heliostat.core.platform.spelling import nearest

REMOTE = (
    "num_cpus",
    "num_gpus",
    "memory",
    "resources",
    "label_selector",
    "fallback_strategy",
    "max_calls",
    "accelerator_type",
    "runtime_env",
)
TASKS = ("parallelism", "override_num_blocks", "concurrency", "ray_remote_args", *REMOTE)


F = TypeVar("F", bound=Callable[..., object])
C = TypeVar("C", bound=type)
_own: dict[str, list[str]] = {}  # the names that a reader or writer takes as its own, by its name


def spelled(function: F) -> F:
    """Have a keyword that a reader or writer does not take told at the call, with the nearest that it takes.

    One with ``**options`` calls :func:`refuse` itself, where it knows whose they are.
    """
    kinds = {p.name: p.kind for p in inspect.signature(function).parameters.values()}
    is_open = inspect.Parameter.VAR_KEYWORD in kinds.values()
    own = [n for n, kind in kinds.items() if kind is not inspect.Parameter.VAR_KEYWORD]
    _own[function.__name__] = own
    if is_open:
        return function

    @functools.wraps(function)
    def call(*args: object, **keywords: object) -> object:
        refuse(function.__name__, [k for k in keywords if k not in own], own, ())
        return function(*args, **keywords)

    made: F = call  # type: ignore[assignment] # of the same signature
    return made


def spelled_methods(name: str) -> Callable[[C], C]:
    """Do as :func:`spelled` does for all public methods of a class.

    Args:
        name: What programs know the class by; errors of Python's about missing arguments have it.
    """

    def changed(cls: C) -> C:
        for attribute, method in list(vars(cls).items()):
            if inspect.isfunction(method) and not attribute.startswith("_"):
                inspect.unwrap(method).__qualname__ = f"{name}.{attribute}"
                setattr(cls, attribute, spelled(method))
        return cls

    return changed


def of_tasks(options: dict[str, Any]) -> dict[str, Any]:
    """Take the options for the tasks out of the options and return them."""
    args = dict(options.pop("ray_remote_args", None) or {})
    for name in REMOTE:
        value = options.pop(name, None)
        if value is not None:
            args[name] = value
    return args


def blocks(options: dict[str, Any], stacklevel: int = 3) -> int | None:
    """How many tasks are asked for, None for as many as suit; it is taken out of the options."""
    parallelism = options.pop("parallelism", -1)
    if parallelism != -1:
        warnings.warn(
            "`parallelism` is deprecated, use `override_num_blocks`.",
            DeprecationWarning,
            stacklevel=stacklevel + 1,
        )
    wanted = options.pop("override_num_blocks", None)
    if wanted is None:
        wanted = parallelism if parallelism > 0 else None
    if wanted is not None and wanted < 1:
        raise ValueError(f"override_num_blocks is {wanted}: it has to be 1 or more.")
    return None if wanted is None else int(wanted)


def refuse(
    name: str,
    options: Iterable[str],
    known: Iterable[str] = (),
    also: Iterable[str] = TASKS,
    inside: Callable[[], Mapping[str, str]] = dict,
) -> None:
    """Raise for options that a function does not take.

    Args:
        name: The function's.
        options: The names that were given and not used.
        known: The names that it takes, of which the nearest are told.
        also: Further such names. Default: those of the tasks that read.
        inside: Gives what to write for names that belong into the value of another keyword.

    Raises:
        TypeError: There are such.
    """
    unknown = list(options)
    if not unknown:
        return
    deeper = inside()
    there = sorted({*also, *known, *_own.get(name, ()), *deeper})
    said = []
    for one in unknown:
        near = nearest(one, there)
        meant = deeper.get(near[0], repr(near[0])) if near else ""
        said.append(repr(one) + (f" (did you mean {meant}?)" if near else ""))
    what = "argument" if len(unknown) == 1 else "arguments"
    raise TypeError(f"{name}() got an unexpected keyword {what} {', '.join(said)}")
