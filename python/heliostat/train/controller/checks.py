"""Checks before any worker starts: each fault ends with what to change."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping
from typing import Any

from heliostat.train.checkpoint import Checkpoint
from heliostat.train.config import RunConfig
from heliostat.train.controller.paths import explain_os_error
from heliostat.train.coordinator.checkpoint_book import CheckpointBook
from heliostat.train.data_config import DataConfig
from heliostat.train.storage.base import SNAPSHOT_FILE, Storage

logger = logging.getLogger(__name__)


def takes_config(function: Callable[..., Any], config: dict[str, Any] | None) -> bool:
    """Whether the training function wants the configuration.

    Raises:
        ValueError: It needs more than one argument, or cannot take the given configuration.
    """
    if not callable(function):
        raise ValueError(
            f"train_loop_per_worker must be a function, not {type(function).__name__}."
        )
    name = getattr(function, "__name__", repr(function))
    if inspect.isgeneratorfunction(function) or inspect.iscoroutinefunction(function):
        raise ValueError(
            f"train_loop_per_worker `{name}` is a generator or a coroutine, which a call only makes "
            "and does not run. Write a plain function: metrics leave it by ray.train.report(), and "
            "asyncio.run(...) inside of it runs a coroutine."
        )
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return config is not None
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    star = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    required = [p for p in positional if p.default is p.empty]
    needed = [p for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
    if len(required) > 1 or needed:
        raise ValueError(
            f"train_loop_per_worker `{name}{inspect.signature(function)}` must take no argument, "
            "or one: the dict passed as train_loop_config. Put what it needs into that dict."
        )
    wants = bool(positional) or star
    if config and not wants:
        raise ValueError(
            f"train_loop_per_worker `{name}` takes no argument, but train_loop_config is given. "
            f"Write `def {name}(config):`, or leave train_loop_config out."
        )
    return bool(required) or (wants and config is not None)


def check_datasets(datasets: Any, config: DataConfig) -> None:
    """Look at what a trainer is given as ``datasets``.

    Raises:
        ValueError: It is not a dict, a value is neither a dataset nor a function, or one that is to
            be split is not there.
    """
    if not isinstance(datasets, Mapping):
        raise ValueError(
            f"datasets must be a dict from names to datasets, not {type(datasets).__name__}: "
            'datasets={"train": dataset}.'
        )
    if type(config) is not DataConfig:  # one of the user's own may take anything
        return
    config.names_to_split(datasets)
    for name, dataset in datasets.items():
        if not callable(dataset) and not hasattr(dataset, "streaming_split"):
            raise ValueError(
                f"datasets[{name!r}] must be a ray.data.Dataset, not a {type(dataset).__name__}. Make "
                "one with ray.data.from_items(...), from_pandas(...), from_huggingface(...) or "
                "read_parquet(...), or pass the value in train_loop_config."
            )


def open_run(storage: Storage, run_config: RunConfig) -> CheckpointBook:
    """Make the folder of the run and read what an earlier run of that name has left there.

    Raises:
        ValueError: The folder cannot be written, or its snapshot cannot be read.
    """
    try:
        storage.prepare()
        snapshot = storage.read(SNAPSHOT_FILE)
    except OSError as error:
        raise ValueError(explain_os_error(storage, error)) from error
    options = run_config.checkpoint_config
    assert options is not None
    book = CheckpointBook(
        options.num_to_keep, options.checkpoint_score_attribute, options.checkpoint_score_order
    )
    if snapshot is not None:
        try:
            book.load(snapshot)
        except ValueError as error:
            raise ValueError(
                f"{storage.join(SNAPSHOT_FILE)}: {error}. Choose another RunConfig(name=...), or "
                "remove that file to start anew."
            ) from error
        gone = [e.name for e in book.entries if not _is_there(storage, e.name)]
        book.entries = [e for e in book.entries if e.name not in gone]
        if gone:
            logger.warning(
                "Checkpoints of the run in %s are gone: %s. It %s.",
                storage.path,
                ", ".join(gone),
                f"goes on from {book.entries[-1].name}" if book.entries else "starts anew",
            )
    return book


def _is_there(storage: Storage, name: str) -> bool:
    return name.startswith("/") or storage.exists(name)


def checkpoint_of(storage: Storage, name: str) -> Checkpoint:
    """The checkpoint that the book calls ``name``."""
    path = name if name.startswith("/") else storage.join(name)
    return Checkpoint(path, storage.filesystem)
