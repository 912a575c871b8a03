"""Options that all readers take, and what is said of those that they do not."""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Iterable
from typing import Any

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
    name: str, options: Iterable[str], known: Iterable[str] = (), also: Iterable[str] = TASKS
) -> None:
    """Raise for options that a function does not take.

    Args:
        name: The function's.
        options: The names that were given and not used.
        known: The names that it takes, of which the nearest are told.
        also: Further such names. Default: those of the tasks that read.

    Raises:
        TypeError: There are such.
    """
    unknown = list(options)
    if not unknown:
        return
    there = sorted({*also, *known})
    said = []
    for one in unknown:
        near = difflib.get_close_matches(one, there, 1)
        said.append(repr(one) + (f" (did you mean {near[0]!r}?)" if near else ""))
    what = "argument" if len(unknown) == 1 else "arguments"
    raise TypeError(f"{name}() got an unexpected keyword {what} {', '.join(said)}")
