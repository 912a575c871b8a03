"""Comparing nests of arrays in tests."""

from __future__ import annotations

from typing import Any

import numpy as np


def check(
    x: Any,
    y: Any,
    decimals: int = 5,
    atol: float | None = None,
    rtol: float | None = None,
    false: bool = False,
) -> None:
    """Fail unless two values are the same: numbers, arrays, tensors, strings, or dicts and lists of them.

    Args:
        x: The one.
        y: The other.
        decimals: How many decimals of numbers are compared, where neither tolerance is given. Default 5.
        atol: The absolute tolerance.
        rtol: The relative tolerance.
        false: Fail where they are the same. Default False.

    Raises:
        AssertionError: They are not.
    """
    try:
        _same(x, y, decimals, atol, rtol)
    except AssertionError:
        if not false:
            raise
        return
    if false:
        raise AssertionError(f"x ({x}) is the same as y ({y})!")


def _same(x: Any, y: Any, decimals: int, atol: float | None, rtol: float | None) -> None:
    if isinstance(x, dict):
        assert isinstance(y, dict), f"x is a dict, y is {type(y).__name__}"
        assert set(x) == set(y), f"keys {sorted(map(str, set(x) ^ set(y)))} are in one of both"
        for key, value in x.items():
            _same(value, y[key], decimals, atol, rtol)
    elif isinstance(x, (list, tuple)):
        assert hasattr(y, "__len__"), f"x is a {type(x).__name__}, y is {type(y).__name__}"
        assert len(x) == len(y), f"x has {len(x)} items and y has {len(y)}"
        for one, other in zip(x, y, strict=True):
            _same(one, other, decimals, atol, rtol)
    elif x is None or y is None or isinstance(x, (str, bool, np.bool_)):
        assert x == y, f"{x!r} is not {y!r}"
    else:
        x, y = (v.detach().cpu().numpy() if hasattr(v, "detach") else v for v in (x, y))
        if getattr(np.asarray(x), "dtype", None) is not None and np.asarray(x).dtype.kind in "OSU":
            assert np.array_equal(np.asarray(x), np.asarray(y)), f"{x!r} is not {y!r}"
        elif atol is None and rtol is None:
            np.testing.assert_almost_equal(x, y, decimal=decimals)
        else:
            np.testing.assert_allclose(x, y, atol=atol or 0.0, rtol=1e-7 if rtol is None else rtol)
