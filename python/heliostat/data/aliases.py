"""Types that many modules write, by name. They are for annotations alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from heliostat.data.aggregation import AggregateFnV2

Value = Any  # of a column, as Python has it
Row = dict[str, Any]  # by column, as the program's functions see it
RemoteArgs = dict[str, Any]  # options of `ray.remote`
Function = Callable[..., Any]  # of the program
Aggregation = AggregateFnV2[Any, Any]
