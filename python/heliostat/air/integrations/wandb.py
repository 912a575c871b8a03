"""Weights & Biases in a training function."""

from __future__ import annotations

import importlib
import json
import os
from typing import Any

from heliostat.air.integrations.rank import another_worker_tracks, run_name
from heliostat.core.platform.extras import missing

__all__ = ["WandbLoggerCallback", "setup_wandb"]  # noqa: F822 # the callback comes by __getattr__

WANDB_ENV_VAR = "WANDB_API_KEY"
_KEY, _PROJECT, _GROUP, _MODE = (
    WANDB_ENV_VAR,
    "WANDB_PROJECT_NAME",
    "WANDB_GROUP_NAME",
    "WANDB_MODE",
)


def setup_wandb(
    config: dict[str, Any] | None = None,
    api_key: str | None = None,
    api_key_file: str | None = None,
    rank_zero_only: bool = True,
    **kwargs: Any,
) -> Any:
    """Start a Weights & Biases run in a training function.

    The run's group is the name of the training run, so that what came before and after a restart
    stands together.

    Args:
        config: The configuration that the run shows. What cannot be stored is shown as text.
        api_key: Key of the account. Default: WANDB_API_KEY, or what ``wandb login`` has stored.
        api_key_file: A file whose first line is the key.
        rank_zero_only: Only rank 0 tracks; the others get a run that stores nothing. Default True.
        kwargs: Options of ``wandb.init``, which go before these defaults; ``trial_id`` and
            ``trial_name`` stand for ``id`` and ``name``.

    Returns:
        The run, as ``wandb.init`` gives it.

    Raises:
        RuntimeError: wandb is not installed.
        ValueError: Both ``api_key`` and ``api_key_file`` are given.
    """
    try:
        wandb = kwargs.pop("_wandb", None) or importlib.import_module("wandb")
    except ImportError as error:
        raise RuntimeError(str(missing("wandb", "setup_wandb()"))) from error
    if another_worker_tracks(rank_zero_only):
        return wandb.init(mode="disabled")
    _set_key(api_key, api_key_file)
    options: dict[str, Any] = {
        "id": kwargs.pop("trial_id", None),
        "name": kwargs.pop("trial_name", None),
        "project": os.environ.get(_PROJECT),
        "group": run_name() or os.environ.get(_GROUP),
        "resume": "allow",
        "reinit": "finish_previous",
        "allow_val_change": True,
        "config": _storable(config or {}),
    }
    return wandb.init(**{**options, **kwargs})


def _set_key(api_key: str | None, api_key_file: str | None) -> None:
    if api_key and api_key_file:
        raise ValueError("setup_wandb() takes api_key or api_key_file, not both.")
    if os.environ.get(_MODE) in ("offline", "disabled"):
        return
    if api_key_file:
        with open(os.path.expanduser(api_key_file)) as file:
            api_key = file.readline().strip()
    if api_key:
        os.environ[_KEY] = api_key


def _storable(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(k): _storable(v) for k, v in value.items()}
    if isinstance(value, list | tuple | set):
        return [_storable(v) for v in value]
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        return str(value)
    return value


def __getattr__(name: str) -> Any:
    """The logger of Tune, which is a layer above."""
    if name != "WandbLoggerCallback":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module("heliostat.tune.logger.wandb"), name)
