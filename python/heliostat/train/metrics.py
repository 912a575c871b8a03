"""Checking reported metrics, and the fields that Ray Train's first generation added to them."""

from __future__ import annotations

import os
import socket
import sys
import time
from datetime import datetime
from typing import Any

_PLAIN = (str, int, float, bool, type(None))


def checked(metrics: Any) -> dict[str, Any]:
    """Return ``metrics`` with numpy scalars and arrays turned into plain numbers and lists.

    Raises:
        ValueError: Something in it cannot be stored; the text names the key and what to do.
    """
    if not isinstance(metrics, dict):
        raise ValueError(
            f"report() takes a dict of metrics, not {type(metrics).__name__}: "
            'for example report({"loss": 0.1}).'
        )
    for value in metrics.values():
        if type(value) not in _PLAIN:
            return {_key(k, ""): _plain(v, str(k)) for k, v in metrics.items()}
    if all(type(k) is str for k in metrics):
        return dict(metrics)
    return {_key(k, ""): v for k, v in metrics.items()}


def _key(key: Any, where: str) -> str:
    if isinstance(key, str):
        return key
    if isinstance(key, bool | int | float) or key is None:
        return str(key)
    raise ValueError(f"The metric names must be strings; {where + ': ' if where else ''}{key!r}.")


def _plain(value: Any, where: str) -> Any:
    if type(value) in _PLAIN:
        return value
    if isinstance(value, dict):
        return {_key(k, where): _plain(v, f"{where}/{k}") for k, v in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(v, f"{where}[{i}]") for i, v in enumerate(value)]
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        raise ValueError(
            f"The metric {where!r} is a torch tensor. Report a plain number: "
            f"metrics[{where!r}].item(), or .tolist() for more than one."
        )
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.generic | numpy.ndarray):
        return _plain(value.tolist(), where)
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    raise ValueError(
        f"The metric {where!r} is of type {type(value).__name__}, which cannot be stored. Report "
        "numbers, strings, or lists and dicts of them; put other objects into a checkpoint."
    )


def lookup(metrics: dict[str, Any], key: str) -> Any:
    """The value under ``key``, or under ``a/b`` the one in nested dicts; None if there is none."""
    if key in metrics:
        return metrics[key]
    value: Any = metrics
    for part in key.split("/"):
        if not isinstance(value, dict) or part not in value:
            return None
        value = value[part]
    return value


class LegacyFields:
    """The fields that results carry with ``RAY_TRAIN_V2_ENABLED=0``."""

    def __init__(self, run_id: str, config: dict[str, Any] | None, node_ip: str) -> None:
        self._trial_id = f"{run_id[:5]}_00000"
        self._config = {"train_loop_config": config} if config is not None else {}
        self._node_ip = node_ip
        self._start = self._last = time.time()
        self._restored_at = self._start
        self._restored_iteration = 0
        self.iteration = 0

    def restored(self) -> None:
        """A new attempt begins."""
        self._restored_at = time.time()
        self._restored_iteration = self.iteration

    def fill(
        self, metrics: dict[str, Any], checkpoint: bool, number: int, pid: int
    ) -> dict[str, Any]:
        """Return the metrics of a report with the added fields."""
        now = time.time()
        self.iteration += 1
        added = {
            "timestamp": int(now),
            "checkpoint_dir_name": f"checkpoint_{number:06d}" if checkpoint else None,
            "should_checkpoint": True,
            "done": False,
            "training_iteration": self.iteration,
            "trial_id": self._trial_id,
            "date": datetime.fromtimestamp(now).strftime("%Y-%m-%d_%H-%M-%S"),
            "time_this_iter_s": now - self._last,
            "time_total_s": now - self._start,
            "pid": pid,
            "hostname": socket.gethostname(),
            "node_ip": self._node_ip,
            "config": self._config,
            "time_since_restore": now - self._restored_at,
            "iterations_since_restore": self.iteration - self._restored_iteration,
        }
        self._last = now
        if not checkpoint:
            added.pop("should_checkpoint")
        return {**metrics, **added}
