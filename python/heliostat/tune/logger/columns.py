"""Reports as text, made a column at a time.

Many reports have the same names, so a column of floats becomes text by one ``map``, what is alike in all
of them is written once, and result.json and progress.csv share it. What is nested or rare is left to the
loggers.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from heliostat.tune.aliases import Report

LEFT_OUT_OF_TABLES = ("config", "experiment_tag")
LEFT_OUT_OF_SCALARS = ("config", "pid", "timestamp", "time_total_s", "training_iteration")
_NUMBERS = ({float}, {int}, {float, int})
_PLAIN = {str, bool, type(None)}
_SPECIAL = frozenset(',"\r\n')


class Made(NamedTuple):
    """A report as text."""

    line: str  # of result.json
    names: tuple[str, ...] | None = None  # the columns of `row`; None: some are nested
    row: str = ""  # of progress.csv
    tags: tuple[str, ...] | None = None  # the names of `numbers`; None: there are others, too
    numbers: tuple[float, ...] = ()


def made_of(results: Sequence[Report]) -> list[Made]:
    """The texts of reports, in their order."""
    groups: dict[tuple[str, ...], list[int]] = {}
    for place, result in enumerate(results):
        groups.setdefault(tuple(result), []).append(place)
    if len(groups) == 1:
        return _of_group(next(iter(groups)), results)
    made: list[Any] = [None] * len(results)
    for names, places in groups.items():
        group = _of_group(names, [results[place] for place in places])
        for place, one in zip(places, group, strict=True):
            made[place] = one
    return made


def as_json(value: object) -> str:
    """A value as JSON: numpy's numbers and arrays as Python's, other objects as text."""
    return _ENCODER.encode(value)


def _plain(value: object) -> object:
    item = getattr(value, "tolist", None)
    return item() if callable(item) else str(value)


_ENCODER = json.JSONEncoder(default=_plain)


class _Column:
    """The values of one name as JSON and as cells of a table; one text where all are the same."""

    def __init__(self, name: str, values: tuple[Any, ...]) -> None:
        kinds = set(map(type, values))
        self.is_nested = False
        self.is_number = kinds in _NUMBERS
        # Scalars of TensorBoard are made from numbers; a NaN is none, and others may hold some.
        self.is_simple = self.is_number or kinds <= _PLAIN
        if self.is_number:
            texts = list(map(repr, values))
            self.cells: Sequence[str] = texts
            self.json: Sequence[str] = texts
            if float in kinds and not all(map(math.isfinite, values)):
                self.json = list(map(as_json, values))
                self.is_simple = not any(map(math.isnan, values))
        elif kinds <= _PLAIN:
            self.json = _each(values, as_json)
            self.cells = _each(values, _cell)
        else:
            known: dict[int, str] = {}
            self.json = [
                known.get(id(value)) or known.setdefault(id(value), as_json(value))
                for value in values
            ]
            self.is_nested = any(isinstance(value, Mapping) for value in values)
            if not self.is_nested:
                self.cells = list(map(_cell, values))


def _each(values: tuple[object, ...], text_of: Callable[[object], str]) -> Sequence[str]:
    """The texts of few different values; ``True`` and 1 are not both among them."""
    known = {value: text_of(value) for value in set(values)}
    return [known[value] for value in values]


def _cell(value: object) -> str:
    text = "" if value is None else str(value)
    if _SPECIAL.isdisjoint(text):
        return text
    return '"' + text.replace('"', '""') + '"'


def row_of(values: Sequence[object]) -> str:
    """A line of a table."""
    return ",".join(map(_cell, values)) + "\n"


def _of_group(names: tuple[str, ...], results: Sequence[Report]) -> list[Made]:
    """The texts of reports with the same names."""
    if not all(type(name) is str for name in names):
        return [Made(as_json(result) + "\n") for result in results]
    columns = {
        name: _Column(name, values)
        for name, values in zip(names, zip(*map(dict.values, results), strict=True), strict=True)
    }
    count = len(results)
    lines = _joined(
        [(f"{as_json(name)}: ", column.json) for name, column in columns.items()],
        ("{", ", ", "}\n"),
        count,
    )
    in_table = {name: one for name, one in columns.items() if name not in LEFT_OUT_OF_TABLES}
    table, rows = None, [""] * count
    if not any(column.is_nested for column in in_table.values()):
        table = tuple(in_table)
        cells = [("", column.cells) for column in in_table.values()]
        rows = _joined(cells, ("", ",", "\n"), count)
    scalars = {name: one for name, one in columns.items() if name not in LEFT_OUT_OF_SCALARS}
    tags, numbers = None, [()] * count
    if all(column.is_simple for column in scalars.values()):
        tags = tuple(name for name, column in scalars.items() if column.is_number)
        if tags:
            numbers = list(zip(*([one[tag] for one in results] for tag in tags), strict=True))
    return [
        Made(line, table, row, tags, some)
        for line, row, some in zip(lines, rows, numbers, strict=True)
    ]


def _joined(
    columns: Sequence[tuple[str, Sequence[str]]], marks: tuple[str, str, str], count: int
) -> list[str]:
    """A line for each report: what stands before each text, and the texts."""
    begin, between, end = marks
    parts, varying = [], []
    for before, texts in columns:
        is_alike = texts.count(texts[0]) == count
        parts.append((before + texts[0] if is_alike else before).replace("%", "%%"))
        if not is_alike:
            parts[-1] += "%s"
            varying.append(texts)
    form = begin.replace("%", "%%") + between.join(parts) + end
    if not varying:
        return [form % ()] * count
    return [form % row for row in zip(*varying, strict=True)]
