"""Values that are logged, and what results say of them."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

_KINDS = (
    "mean ema min max sum lifetime_sum item item_series percentiles".split()  # noqa: SIM905 - a table
)


class Stats:
    """The values of one key.

    Args:
        reduce: What a result has of them: ``mean``, ``ema`` (a moving mean), ``min``, ``max``, ``sum``,
            ``lifetime_sum``, ``item`` (the last), ``item_series`` (all), ``percentiles``.
        window: Over how many last values. Default: those since the last result.
        ema_coeff: The weight of a new value in the moving mean. Default: 0.01.
        percentiles: Which ones. Default: 0, 50, 75, 90, 95, 99, 100.
    """

    leaf = False  # whether its logger is not the root, which alone keeps sums of a lifetime
    at = 0.0  # of a throughput: when it was last logged

    def __init__(
        self,
        reduce: str = "ema",
        window: int | None = None,
        ema_coeff: float | None = None,
        percentiles: Any = None,
    ) -> None:
        if reduce not in _KINDS:
            from heliostat.core.platform.spelling import did_you_mean

            raise ValueError(
                f"reduce={reduce!r} must be one of {', '.join(_KINDS)}.{did_you_mean(reduce, _KINDS)}"
            )
        self.reduce, self.window = reduce, window
        self.ema_coeff = 0.01 if ema_coeff is None else ema_coeff
        self.percentiles = percentiles
        self.values: Any = deque(maxlen=window)
        self.total: float = 0.0
        self.moving: float | None = None
        self.last: Any = float("nan")

    def push(self, value: Any) -> None:
        """Add a value."""
        if hasattr(value, "detach"):
            value = value.detach().cpu().numpy()
        self.last = value
        if self.reduce == "ema" and self.window is None:
            number = float(value)
            self.moving = (
                number
                if self.moving is None
                else (1 - self.ema_coeff) * self.moving + self.ema_coeff * number
            )
        elif self.reduce == "lifetime_sum":
            self.total += float(value)
        else:
            self.values.append(value)

    def merge(self, others: list[Stats]) -> None:
        """Add the values of others, side by side in time."""
        for other in others:
            if self.reduce == "ema" and self.window is None:
                continue
            if self.reduce == "lifetime_sum":
                self.total += other.total
            self.values.extend(other.values)
            if len(other.values) or other.reduce == "lifetime_sum":
                self.last = other.last
        moved = [other.moving for other in others if other.moving is not None]
        if moved and self.window is None:
            self.moving = float(np.mean(moved))

    def peek(self) -> Any:
        """Return the reduced value, as a result has it."""
        if self.reduce == "lifetime_sum":
            return self.total
        if self.reduce == "ema" and self.window is None:
            return float("nan") if self.moving is None else self.moving
        if self.reduce == "item":
            return self.last
        values = list(self.values)
        if self.reduce == "item_series":
            return values
        if self.reduce == "sum":
            return _plain(np.sum(values)) if values else 0
        if not values:
            return float("nan")
        if self.reduce == "percentiles":
            wanted = self.percentiles
            if not isinstance(wanted, (list, tuple)):
                wanted = [0, 50, 75, 90, 95, 99, 100]
            found = np.percentile(values, wanted)
            return {p: float(v) for p, v in zip(wanted, found, strict=True)}
        function = {"min": np.min, "max": np.max}.get(self.reduce, np.mean)
        return _plain(function(values))

    def successor(self, root: bool) -> Stats:
        """Return the object that takes the next values, after these were handed on."""
        made = Stats(self.reduce, self.window, self.ema_coeff, self.percentiles)
        made.__dict__ |= {k: v for k, v in vars(self).items() if k in ("leaf", "at")}
        made.moving, made.last = self.moving, self.last
        made.total = self.total if root else 0.0
        return made

    def clear(self) -> None:
        """Forget what a result has had, unless a window keeps it."""
        if self.window is None:
            self.values.clear()
        if self.reduce == "lifetime_sum" and self.leaf:
            self.total = 0.0


def _plain(value: Any) -> Any:
    return value.item() if getattr(value, "ndim", None) == 0 and hasattr(value, "item") else value


class MetricsLogger:
    """Values under nested keys, and their reductions.

    Args:
        root: Whether results are reported from here: sums over the lifetime stay, elsewhere they are handed
            on.
        stats_cls_lookup: Kept for programs that pass it.
    """

    def __init__(self, root: bool = False, stats_cls_lookup: Any = None) -> None:
        self.root = root
        self.stats: dict[tuple[str, ...], Stats] = {}

    def __contains__(self, key: Any) -> bool:
        wanted = _key(key)
        return any(name[: len(wanted)] == wanted for name in self.stats)

    def log_value(
        self,
        key: Any,
        value: Any,
        *,
        reduce: str | None = None,
        window: int | None = None,
        ema_coeff: float | None = None,
        percentiles: Any = None,
        with_throughput: bool | None = None,
        **gone: Any,
    ) -> None:
        """Log a value.

        Args:
            key: A name, or a tuple of names of nested dicts.
            value: A number, a tensor, or anything for ``item`` and ``item_series``.
            reduce: How values become a result. Default: ``mean`` with a window, else ``ema``.
            window: Over how many last values.
            ema_coeff: The weight of a new value in a moving mean.
            percentiles: Which percentiles, for ``reduce="percentiles"``.
            with_throughput: Whether a sum is also told per second, as ``<key>_throughput``.

        Raises:
            ValueError: There is no such ``reduce``.
        """
        if percentiles:
            reduce = "percentiles"
        if reduce is None:
            reduce = "mean" if window is not None else "ema"
        name = _key(key)
        if gone.pop("clear_on_reduce", None) and reduce == "ema":
            reduce = "mean"
        held = self.stats.get(name)
        if held is None:
            held = self.stats[name] = Stats(reduce, window, ema_coeff, percentiles)
            held.leaf = not self.root
        held.push(value)
        if with_throughput:
            self._throughput(name, value)

    def _log_values(
        self, key: Any, values: list[Any], reduce: str, window: int | None = None
    ) -> None:
        """Log numbers of Python's, one after the other."""
        name = _key(key)
        held = self.stats.get(name)
        if held is None:
            held = self.stats[name] = Stats(reduce, window)
            held.leaf = not self.root
        held.last = values[-1]
        if reduce == "lifetime_sum":
            held.total += sum(values)
        else:
            held.values.extend(values)

    def _throughput(self, name: tuple[str, ...], value: Any) -> None:
        side = (*name[:-1], f"{name[-1]}_throughput")
        now = time.perf_counter()
        held = self.stats.get(side)
        if held is None:
            held = self.stats[side] = Stats("ema", None, 0.1)
            held.at = now
            return
        seconds = max(now - held.at, 1e-9)
        held.at = now
        held.push(float(value) / seconds)

    def log_dict(self, value_dict: dict[str, Any], *, key: Any = None, **how: Any) -> None:
        """Log each value of a nested dict, below ``key``."""
        how.setdefault("reduce", None)
        for name, value in value_dict.items():
            path = (*(_key(key) if key is not None else ()), name)
            if isinstance(value, dict):
                self.log_dict(value, key=path, **how)
            else:
                self.log_value(path, value, **how)

    @contextmanager
    def log_time(self, key: Any, *, reduce: str = "ema", **how: Any) -> Iterator[None]:
        """Log the seconds that a ``with`` block takes."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.log_value(key, time.perf_counter() - began, reduce=reduce, **how)

    def aggregate(self, stats_dicts: list[dict[Any, Any]], *, key: Any = None) -> None:
        """Take in what other loggers reduced, of runners or learners that worked side by side.

        Args:
            stats_dicts: What their :meth:`reduce` returned.
            key: Where their keys go.
        """
        below = _key(key) if key is not None else ()
        by_name: dict[tuple[str, ...], list[Stats]] = {}
        for given in stats_dicts:
            for name, stats in given.items():
                by_name.setdefault((*below, *_key(name)), []).append(stats)
        for name, others in by_name.items():
            held = self.stats.get(name)
            if held is None:
                model = others[0]
                held = self.stats[name] = Stats(
                    model.reduce, model.window, model.ema_coeff, model.percentiles
                )
                held.leaf = not self.root
            held.merge(others)

    def peek(self, key: Any = None, default: Any = None, **how: Any) -> Any:
        """Return what a result has under a key: a value, or a nested dict; ``default`` where nothing is."""
        wanted = _key(key) if key is not None else ()
        if wanted in self.stats:
            return self.stats[wanted].peek()
        below = {
            name[len(wanted) :]: stats
            for name, stats in self.stats.items()
            if name[: len(wanted)] == wanted
        }
        if not below:
            return default
        return _nested({name: stats.peek() for name, stats in below.items()})

    @staticmethod
    def peek_results(results: Any, compile: bool = True) -> Any:
        """Return the values of what :meth:`reduce` returned, as a nested dict.

        Args:
            results: What a logger handed on, or a part of it.
            compile: Has no effect: values are those of a result.
        """
        if isinstance(results, Stats):
            return results.peek()
        if not isinstance(results, dict):
            return results
        found = {_key(name): MetricsLogger.peek_results(own) for name, own in results.items()}
        return _nested(found)

    def merge_and_log_n_dicts(self, stats_dicts: list[dict[Any, Any]], *, key: Any = None) -> None:
        """The same as :meth:`aggregate`, by its name of before.

        Args:
            stats_dicts: As of :meth:`aggregate`.
            key: As of :meth:`aggregate`.
        """
        self.aggregate(stats_dicts, key=key)

    def reduce(self, compile: bool = False) -> dict[Any, Any]:
        """Return what was logged, for :meth:`aggregate` of another logger, and begin anew.

        Args:
            compile: Whether the values are returned as a nested dict instead.
        """
        if compile:
            found = self.peek() or {}
            for stats in self.stats.values():
                stats.clear()
            return dict(found)
        # Logged values go as they are; moving means and sums over the lifetime of a root go on here.
        given, self.stats = self.stats, {}
        for name, stats in given.items():
            self.stats[name] = stats.successor(self.root)
        return given

    def compile(self) -> dict[str, Any]:
        """Return the values as a nested dict, and begin anew."""
        return self.reduce(compile=True)

    def reset(self) -> None:
        """Forget everything."""
        self.stats.clear()

    def delete(self, *key: Any, key_error: bool = True) -> None:
        """Forget a key.

        Raises:
            KeyError: There is none of it, and ``key_error`` is True.
        """
        name = _key(key[0]) if len(key) == 1 else tuple(key)
        if name not in self.stats:
            if key_error:
                raise KeyError(f"Nothing was logged under {name!r}.")
            return
        del self.stats[name]

    def set_value(self, *arguments: Any, **keywords: Any) -> None:
        """Refused: its place has ``log_value(..., reduce="item")``.

        Raises:
            ValueError: Always.
        """
        raise ValueError('set_value() is gone: call log_value(key, value, reduce="item").')

    def get_state(self) -> dict[str, Any]:
        """Return what :meth:`set_state` takes."""
        return {"stats": self.stats}

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over what :meth:`get_state` returned."""
        self.stats = dict(state["stats"])


def _key(key: Any) -> tuple[str, ...]:
    return tuple(key) if isinstance(key, (tuple, list)) else (key,)


def _nested(flat: dict[tuple[str, ...], Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in flat.items():
        at = found
        for part in name[:-1]:
            at = at.setdefault(part, {})
        at[name[-1]] = value
    return found
