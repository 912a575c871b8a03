"""The functions behind ``expr.dt``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.compute as pc

from heliostat.data.expressions.namespace import Namespace, one_of

if TYPE_CHECKING:
    from heliostat.data.expressions.expr import Expr

UNITS = (
    "year", "quarter", "month", "week", "day", "hour",
    "minute", "second", "millisecond", "microsecond", "nanosecond",
)  # fmt: skip


class Times(Namespace):
    """Functions of dates and timestamps. Units are "year", "hour", "microsecond" and their like."""

    prefix = "dt"

    def year(self) -> Expr:
        """Return the year."""
        return self._call("year", pc.year)

    def month(self) -> Expr:
        """Return the month, from 1."""
        return self._call("month", pc.month)

    def day(self) -> Expr:
        """Return the day of the month, from 1."""
        return self._call("day", pc.day)

    def hour(self) -> Expr:
        """Return the hour, from 0."""
        return self._call("hour", pc.hour)

    def minute(self) -> Expr:
        """Return the minute, from 0."""
        return self._call("minute", pc.minute)

    def second(self) -> Expr:
        """Return the second, from 0."""
        return self._call("second", pc.second)

    def strftime(self, fmt: str) -> Expr:
        """Return the time as text, by a format such as ``"%Y-%m-%d"``."""
        return self._call("strftime", pc.strftime, fmt)

    def ceil(self, unit: str) -> Expr:
        """Return the time rounded up to a whole unit."""
        return self._rounded("ceil", unit)

    def floor(self, unit: str) -> Expr:
        """Return the time rounded down to a whole unit."""
        return self._rounded("floor", unit)

    def round(self, unit: str) -> Expr:
        """Return the time rounded to the nearest whole unit."""
        return self._rounded("round", unit)

    def _rounded(self, name: str, unit: str) -> Expr:
        one_of("unit", unit, UNITS)
        return self._call(name, getattr(pc, f"{name}_temporal"), unit=unit)
