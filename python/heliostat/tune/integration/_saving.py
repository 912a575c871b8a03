"""What the callbacks share: a report with a checkpoint that the library writes, and when to send it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Iterable
from typing import Any

from heliostat.train.checkpoint import Checkpoint
from heliostat.tune.context import report


def report_saved(metrics: dict[str, Any], save: Callable[[str], Any] | None) -> None:
    """Report, with a checkpoint of what ``save`` writes into a folder; None: without one."""
    if save is None:
        report(metrics)
        return
    with tempfile.TemporaryDirectory() as folder:
        save(folder)
        report(metrics, checkpoint=Checkpoint.from_directory(folder))


def hooks(asked: str | Iterable[str], known: Collection[str], library: str) -> set[str]:
    """The names of a library's hooks, which begin with "on_", for names without that.

    Raises:
        ValueError: The library has no such hook.
    """
    names = [asked] if isinstance(asked, str) else list(asked)
    wrong = [name for name in names if f"on_{name}" not in known]
    if wrong:
        there = sorted(name.removeprefix("on_") for name in known)
        raise ValueError(f"{library} has no hook {wrong[0]!r}; it has {there}.")
    return {f"on_{name}" for name in names}
