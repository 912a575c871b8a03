"""Numbers of a whole dataset."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from heliostat.data import aggregate, checks
from heliostat.data.aggregation import checked
from heliostat.data.dataset.base import Base
from heliostat.data.plan.operators import Map
from heliostat.data.plan.transforms import MapStream

if TYPE_CHECKING:
    from heliostat.data.aliases import Aggregation, Row, Value


def total(dataset: Base, aggs: Sequence[Aggregation]) -> Row:
    """The results of aggregations by name; each task gives the parts of its rows."""
    checked(aggs)
    partials = MapStream(aggregate.Partials(list(aggs)), "Aggregate")
    return aggregate.total(dataset._tables(Map(dataset._plan, partials)), list(aggs))


def single(
    dataset: Base,
    kind: Callable[..., Aggregation],
    on: str | list[str] | None,
    **options: object,
) -> Value:
    """The result of an aggregation of one column; of several, by name; None: of all that there are."""
    columns = on if on is None else checks.names("on", on)
    if columns is None:
        schema = dataset._arrow_schema()
        columns = list(schema.names) if schema is not None else []
        if not columns:
            return None
    made = total(dataset, [kind(column, **options) for column in columns])
    return next(iter(made.values())) if len(columns) == 1 else made
