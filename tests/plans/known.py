"""What is known of a dataset: its columns, its rows, and how far their order is certain."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from .values import NESTED, is_missing, is_negative_zero

Row = dict[str, Any]


class Inapplicable(Exception):
    """A step does not fit the dataset that it is applied to."""


def need(condition: Any, why: str = "") -> None:
    """Raise Inapplicable unless the condition holds."""
    if not condition:
        raise Inapplicable(why)


@dataclass(frozen=True)
class Column:
    """A column's kind, and whether its values are certain to the type.

    A column with missing values that went through numpy or pandas is not: an integer may have become a
    float, None may have become NaN, and that only in some blocks.
    """

    kind: str
    exact: bool = True


@dataclass(frozen=True)
class Known:
    """A dataset's answer.

    Rows of one rank come in any order; rows of a lower rank come first. Where ``some`` is set, the
    dataset has only some of the rows, in any number.
    """

    columns: dict[str, Column]
    rows: list[Row]
    ranks: list[int] = field(default_factory=list)
    some: bool = False

    def __post_init__(self) -> None:
        if len(self.ranks) != len(self.rows):
            object.__setattr__(self, "ranks", list(range(len(self.rows))))

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def total_order(self) -> bool:
        """Whether the place of every row is certain."""
        return len(set(self.ranks)) == len(self.ranks)

    def column(self, name: str, *kinds: str) -> Column:
        """The column of that name, which must have one of the kinds."""
        need(name in self.columns, f"no column {name}")
        need(not kinds or self.columns[name].kind in kinds, f"kind of {name}")
        return self.columns[name]

    def names(self, *kinds: str) -> list[str]:
        """Names of columns, only of those kinds if any are given."""
        return [n for n, c in self.columns.items() if not kinds or c.kind in kinds]

    def missing(self, name: str) -> bool:
        """Whether the column has None or NaN."""
        return any(is_missing(row.get(name)) for row in self.rows)

    def has_nan(self, name: str) -> bool:
        """Whether the column has NaN."""
        return any(is_missing(r[name]) and r[name] is not None for r in self.rows)

    def certain(self, name: str) -> bool:
        """Whether functions of the column's values can be predicted.

        Integers that were beside a missing value, in a batch, have become floats and stay that, also where
        the missing value is gone since. And 0.0 and -0.0 are equal, yet two values to Arrow, as on Ray.
        """
        column = self.columns[name]
        if column.kind == "float" and any(is_negative_zero(row.get(name)) for row in self.rows):
            return False
        blurred = (*NESTED, "int", "big")
        return column.exact or (column.kind not in blurred and not self.missing(name))

    def certain_names(self, *kinds: str) -> list[str]:
        """As :meth:`names`, only columns whose values are certain."""
        return [n for n in self.names(*kinds) if self.certain(n)]

    def loosened(self, names: Iterable[str] | None = None) -> dict[str, Column]:
        """The columns after numpy or pandas had those (default: all) in hand."""
        touched = set(self.columns if names is None else names)
        return {
            n: replace(c, exact=False) if n in touched and self.blurs(n) else c
            for n, c in self.columns.items()
        }

    def blurs(self, name: str) -> bool:
        """Whether numpy and pandas do not hold the column exactly."""
        return self.columns[name].kind in (*NESTED, "date") or self.missing(name)

    def derive(
        self,
        rows: list[Row] | None = None,
        columns: dict[str, Column] | None = None,
        ranks: list[int] | None = None,
    ) -> Known:
        """A changed copy; without ``ranks``, the number of rows must not change."""
        return Known(
            self.columns if columns is None else columns,
            self.rows if rows is None else rows,
            self.ranks if ranks is None else ranks,
            self.some,
        )

    def pick(self, indices: list[int]) -> Known:
        """The rows at those indices, which ascend.

        A column of tensors that had None among them is one of Python objects, and stays that.
        """
        columns = {
            n: replace(c, exact=False) if c.kind == "tensor" and self.missing(n) else c
            for n, c in self.columns.items()
        }
        ranks = [self.ranks[i] for i in indices]
        return self.derive([self.rows[i] for i in indices], columns, ranks)

    def unordered(self) -> Known:
        """The same rows in any order."""
        return self.derive(ranks=[0] * len(self.rows))

    def first(self, count: int) -> Known:
        """The first rows, where it is certain which these are."""
        count = max(0, min(count, len(self)))
        cut = 0 < count < len(self) and self.ranks[count - 1] == self.ranks[count]
        need(not cut or self.some, "which rows come first is not certain")
        need(not self.some, "some rows only")
        return self.pick(list(range(count)))


def new_name(known: Known, *stems: str) -> str:
    """A column name that is not taken."""
    for number in range(1000):
        for stem in stems or ("n",):
            name = f"{stem}{number}" if number else stem
            if name not in known.columns:
                return name
    raise Inapplicable("no name left")
