"""F0.25: names that are marked as deprecated say so when they are used."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from ray.util.annotations import Deprecated, RayDeprecationWarning


@pytest.mark.contract("F0.25")
def test_deprecated_functions_classes_and_methods_warn_where_they_are_called() -> None:
    @Deprecated(message="Call new() instead.", warning=True)
    def old(n: int) -> int:
        """Gives n."""
        return n

    @Deprecated(warning=True)
    class Old:
        def __init__(self, n: int) -> None:
            self.n = n

    class New:
        @Deprecated(message="Call other().", warning=True)
        def method(self, n: int) -> int:
            return n

    calls: list[tuple[Any, str]] = [
        (lambda: old(3), "Call new"),
        (lambda: Old(3).n, "may be removed"),
        (lambda: New().method(3), "Call other"),
    ]
    for call, says in calls:
        with pytest.warns(RayDeprecationWarning, match=says) as caught:
            assert call() == 3
        assert [one.filename for one in caught] == [__file__]
    assert old.__name__ == "old"
    assert "Gives n." in (old.__doc__ or "")
    assert isinstance(Old, type)


@pytest.mark.contract("F0.25")
def test_without_its_warning_a_deprecated_name_stays_silent() -> None:
    @Deprecated
    def bare() -> int:
        return 1

    @Deprecated(message="Call new() instead.")
    def said() -> int:
        return 2

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (bare(), said()) == (1, 2)
    with pytest.raises(ValueError, match="kwargs"):
        Deprecated(nonsense=1)
