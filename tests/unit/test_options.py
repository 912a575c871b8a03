"""What `.options()` made is found again for the same options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from heliostat.core.calls.options import OptionsCache

pytestmark = pytest.mark.contract("F1.07")


class Made:
    """Counts what had to be made."""

    def __init__(self) -> None:
        self.remembered: OptionsCache[object] = OptionsCache()
        self.number = 0

    def find(self, options: Mapping[str, Any]) -> object:
        def make() -> object:
            self.number += 1
            return object()

        return self.remembered.find(options, make)


def test_plain_options_are_made_once() -> None:
    made = Made()
    given = [
        {"name": "a"},
        {"name": "b"},
        {"num_cpus": 1},
        {"num_cpus": 1.0},
        {"num_cpus": True},
        {"max_retries": None},
        {"resources": {"x": 1}},
        {"resources": {"x": 2}},
        {},
    ]
    first = [made.find(dict(options)) for options in given]
    assert len(set(first)) == made.number == len(given)
    assert [made.find(dict(options)) for options in given] == first
    assert made.number == len(given)


@pytest.mark.parametrize("value", [[ValueError], object(), {"x": [1]}])
def test_what_can_change_is_made_each_time(value: Any) -> None:
    made = Made()
    assert made.find({"o": value}) is not made.find({"o": value})


def test_however_many_are_given_so_many_are_kept() -> None:
    made = Made()
    for n in range(3 * OptionsCache.MAX):
        made.find({"name": str(n)})
        assert len(made.remembered._made) <= OptionsCache.MAX
