"""``ray.tune.utils.util``: small helpers that loggers, searchers and scripts import from there."""

from __future__ import annotations

import itertools
import json
import logging
import math
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

__all__ = [
    "SafeFallbackEncoder",
    "Tee",
    "is_nan",
    "is_nan_or_inf",
    "retry_fn",
    "unflatten_dict",
    "unflatten_list_dict",
]

logger = logging.getLogger("heliostat")


def unflatten_dict(dt: Mapping[str, Any], delimiter: str = "/") -> dict[str, Any]:
    """Return ``{"a/b": 1}`` as ``{"a": {"b": 1}}``, in a dict of the same kind.

    Raises:
        TypeError: A key goes on below a value that is not a dict.
    """
    kind = type(dt)
    nested: Any = kind()
    for key, value in dt.items():
        *above, last = key.split(delimiter)
        place = nested
        for part in above:
            place = place.setdefault(part, kind())
            if not isinstance(place, kind):
                raise TypeError(
                    f"The key {key!r} goes on below {part!r}, which is a {type(place).__name__} and no "
                    f"{kind.__name__}: give one of them another name."
                )
        place[last] = value
    made: dict[str, Any] = nested
    return made


def unflatten_list_dict(dt: Mapping[str, Any], delimiter: str = "/") -> Any:
    """Return ``{"a/0/b": 1, "a/1/b": 2}`` as ``{"a": [{"b": 1}, {"b": 2}]}``.

    Args:
        dt: Keys are texts; those of a list count up from 0.
        delimiter: What stands between the keys.

    Raises:
        ValueError: The places of a list are out of order.
    """
    first = next(iter(dt), "")
    nested: Any = [] if first.split(delimiter, 1)[0].isdigit() else type(dt)()
    for key, value in dt.items():
        parts = key.split(delimiter)
        place = nested
        for part, after in itertools.pairwise(parts):
            below: Any = [] if after.isdigit() else {}
            if isinstance(place, dict):
                place = place.setdefault(part, below)
                continue
            if int(part) == len(place):
                place.append(below)
            place = _at(place, part, key)
        if isinstance(place, dict):
            place[parts[-1]] = value
        elif int(parts[-1]) == len(place):
            place.append(value)
        else:
            raise ValueError(f"The place in {key!r} does not follow: lists begin at 0.")
    return nested


def _at(place: list[Any], part: str, key: str) -> Any:
    if int(part) >= len(place):
        raise ValueError(f"The place {part} in {key!r} does not follow: lists begin at 0.")
    return place[int(part)]


class SafeFallbackEncoder(json.JSONEncoder):
    """Writes anything: numpy's numbers and arrays as Python's, NaN as ``nan_str``, the rest as text."""

    def __init__(self, nan_str: str = "null", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.nan_str = nan_str

    def default(self, value: Any) -> Any:
        """Return what is written for a value that JSON does not know."""
        try:
            plain = value.tolist()  # of numpy
        except Exception:
            return str(value)
        is_nan = isinstance(plain, float) and math.isnan(plain)
        return self.nan_str if is_nan else plain


def is_nan(value: Any) -> Any:
    """Return whether a number, or each of an array, is NaN."""
    import numpy

    return numpy.isnan(value)


def is_nan_or_inf(value: Any) -> Any:
    """Return whether a number, or each of an array, is NaN or infinite."""
    import numpy

    return numpy.isnan(value) | numpy.isinf(value)


def retry_fn(
    fn: Callable[[], Any],
    exception_type: type[Exception] | tuple[type[Exception], ...] = Exception,
    num_retries: int = 3,
    sleep_time: float = 1,
    timeout: float | None = None,
) -> bool:
    """Call a function until it returns; whether it did.

    Args:
        fn: The function.
        exception_type: What it may raise to be called again.
        num_retries: How many times it is called.
        sleep_time: Seconds between two calls.
        timeout: Seconds that a call may take; it goes on in its thread after that.
    """
    for turn in range(num_retries):
        if turn:
            time.sleep(sleep_time)
        failed: list[Exception] = []

        def call(failed: list[Exception] = failed) -> None:
            try:
                fn()
            except exception_type as error:
                failed.append(error)

        thread = threading.Thread(target=call, daemon=True)
        thread.start()
        thread.join(timeout)
        if failed:
            logger.warning("%s failed: %s", getattr(fn, "__name__", fn), failed[0])
        elif not thread.is_alive():
            return True
    return False


class Tee:
    """A stream that writes into two."""

    def __init__(self, stream1: Any, stream2: Any) -> None:
        self.stream1, self.stream2 = stream1, stream2

    def write(self, *args: Any, **kwargs: Any) -> None:
        """Write to both; one that is closed is passed over."""
        self._both("write", *args, **kwargs)

    def flush(self, *args: Any, **kwargs: Any) -> None:
        """Flush both."""
        self._both("flush", *args, **kwargs)

    def seek(self, *args: Any, **kwargs: Any) -> None:
        """Seek in both."""
        self._both("seek", *args, **kwargs)

    def _both(self, method: str, *args: Any, **kwargs: Any) -> None:
        for stream in (self.stream1, self.stream2):
            if not getattr(stream, "closed", False):
                getattr(stream, method)(*args, **kwargs)

    @property
    def encoding(self) -> Any:
        """The first one's, else the second one's."""
        return getattr(self.stream1, "encoding", None) or getattr(self.stream2, "encoding", None)
