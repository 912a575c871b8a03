"""Importance of parameters: the part of the differences between trials that each explains."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from heliostat.tune.view.rows import Row

FEWEST = 8  # trials below which nothing is said
_GROUPS = 5  # of a parameter that takes many values


def importance(rows: Sequence[Row]) -> list[tuple[str, float]]:
    """The parameters and their share between 0 and 1, the largest first; empty where trials are too few.

    Trials are put in order by the metric, and in groups by the values of a parameter (numbers of many values
    into five groups of one size). The share is what of the differences in that order lies between groups,
    less what chance would put there.
    """
    known = [row for row in rows if row.value is not None]
    if len(known) < FEWEST:
        return []
    ranks = _ranks([row.value or 0.0 for row in known])
    names = dict.fromkeys(name for row in known for name in row.parameters)
    found = []
    for name in names:
        groups = _groups([row.parameters.get(name) for row in known])
        if len(set(groups)) > 1:
            found.append((name, _share(ranks, groups)))
    return sorted(found, key=lambda pair: -pair[1])


def _ranks(values: Sequence[float]) -> list[float]:
    """The place of each value among all; equal ones share theirs."""
    order = sorted(range(len(values)), key=lambda n: values[n])
    ranks = [0.0] * len(values)
    begin = 0
    while begin < len(order):
        end = begin
        while end < len(order) and values[order[end]] == values[order[begin]]:
            end += 1
        for place in order[begin:end]:
            ranks[place] = (begin + end - 1) / 2
        begin = end
    return ranks


def _groups(values: Sequence[Any]) -> list[Any]:
    if len({repr(value) for value in values}) <= _GROUPS:
        return [repr(value) for value in values]
    if all(_is_number(value) for value in values):
        return [int(place * _GROUPS / len(values)) for place in _ranks(values)]
    return [repr(value) for value in values]


def _is_number(value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and math.isfinite(value)


def _share(ranks: Sequence[float], groups: Sequence[Any]) -> float:
    count = len(ranks)
    middle = sum(ranks) / count
    whole = sum((one - middle) ** 2 for one in ranks)
    members: dict[Any, list[float]] = defaultdict(list)
    for one, group in zip(ranks, groups, strict=True):
        members[group].append(one)
    free = count - len(members)
    if not whole or free <= 0:
        return 0.0
    within = 0.0
    for one_group in members.values():
        mean = sum(one_group) / len(one_group)
        within += sum((one - mean) ** 2 for one in one_group)
    return max(0.0, 1 - within / whole * (count - 1) / free)
