"""Types that many modules write, by name. They are for annotations alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias, Union

from heliostat.data.aggregation import AggregateFnV2

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    import pyarrow as pa

    from heliostat import ObjectRef, ObjectRefGenerator

Value: TypeAlias = Any  # of a column, or what a program's function makes: no type is ruled out
Row = dict[str, Value]  # by column, as the program's functions see it
Batch = Union["pa.Table", "pd.DataFrame", dict[str, "np.ndarray"]]
RemoteArgs = dict[str, Value]  # options of `ray.remote`
Function = Callable[..., Value]  # of the program
Aggregation = AggregateFnV2[Value, Value]
Waitable = Union["ObjectRef", "ObjectRefGenerator"]  # what `ray.wait` takes
