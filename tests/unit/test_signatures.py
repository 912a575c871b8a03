"""The arguments of calls are checked without a call."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest
from heliostat.core.calls import signature

CASES: list[tuple[Callable[..., Any], tuple[int, int]]] = [
    (lambda: 0, (0, 0)),
    (lambda a, b=1: 0, (1, 2)),
    (lambda a, /, b: 0, (2, 2)),
    (lambda *a: 0, (0, -1)),
    (lambda a, **k: 0, (1, 1)),
    (lambda a, *, k=1: 0, (1, 1)),
]


@pytest.mark.contract("F1.02")
@pytest.mark.parametrize(("function", "bounds"), CASES)
def test_bounds_of_calls_without_keywords(function: Any, bounds: tuple[int, int]) -> None:
    assert signature.bounds(signature.parameters(function)) == bounds


@pytest.mark.contract("F1.02")
def test_a_required_keyword_fails_every_call_without_keywords() -> None:
    least, most = signature.bounds(signature.parameters(lambda a, *, k: 0))
    assert not any(least <= number <= most for number in range(10))


@pytest.mark.contract("F1.02")
def test_checks_say_what_python_says() -> None:
    given = signature.parameters(lambda self, a, b=object(): 0, bound=True)  # noqa: B008
    again = pickle.loads(pickle.dumps(given))
    assert again == given, "a default that cannot be sent is not sent"
    check = signature.checker(again, "f")
    assert check is not None
    check((1,), {"b": 2})
    for args, kwargs, said in [
        ((), {}, r"^f\(\): missing a required argument: 'a'"),
        ((1, 2, 3), {}, r"^f\(\): too many positional arguments"),
        ((1,), {"a": 1}, r"^f\(\): multiple values for argument 'a'"),
        ((1,), {"c": 1}, r"^f\(\): got an unexpected keyword argument 'c'"),
    ]:
        with pytest.raises(TypeError, match=said):
            check(args, kwargs)


def test_what_python_cannot_tell_is_not_checked() -> None:
    assert signature.checker(None, "f") is None
    assert signature.bounds(None) == (0, -1)
