"""The core of a dataset: a plan, settings, and running the one with the other."""

from __future__ import annotations

import itertools
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

import heliostat as ray
from heliostat.data import block
from heliostat.data.context import DataContext
from heliostat.data.execute.executor import execute
from heliostat.data.execute.stats import ExecutionStats
from heliostat.data.plan import analysis
from heliostat.data.plan.operators import Bundle, Limit, Operator
from heliostat.data.plan.optimize import optimized
from heliostat.data.sources.options import spelled_methods

if TYPE_CHECKING:
    from heliostat.data.dataset import Dataset

_numbers = itertools.count()


def key_names(key: object) -> list[str]:
    """The columns of a key: one, or a list of them.

    Raises:
        ValueError: They are not names.
    """
    names = [key] if isinstance(key, str) else key
    if not isinstance(names, list | tuple) or not all(isinstance(n, str) for n in names):
        raise ValueError(f"Key must be a string or a list of strings, but got {key!r}.")
    return list(names)


@spelled_methods("Dataset")
class Base:
    """A plan, settings, and what is known of their execution."""

    _is_materialized = False

    def __init__(self, plan: Operator, context: DataContext | None = None) -> None:
        self._plan = plan
        if (
            context is None
        ):  # made by a source, after which programs ask for the cluster's resources
            ray.get_runtime_context()  # begins a session
            context = DataContext.get_current().copy()
        self._context = context
        self._stats: ExecutionStats | None = None
        self._schema: pa.Schema | None = None
        self._schema_known = False
        self._lacks_columns = False  # and has rows
        self._name: str | None = None
        self._id = f"dataset_{next(_numbers)}"

    @property
    def context(self) -> DataContext:
        """The settings it was made with; change them in place before it is executed."""
        return self._context

    def _derive(self, plan: Operator) -> Dataset:
        from heliostat.data.dataset import Dataset

        return Dataset(plan, self._context)

    def _to_execute(self) -> Operator:
        """The plan as it is executed."""
        return optimized(self._plan) if self._context._optimizes else self._plan

    def _execute(
        self, plan: Operator | None = None, number: int | None = None
    ) -> tuple[Generator[Bundle, None, None], ExecutionStats]:
        label = self._name or "Dataset"
        bundles, stats = execute(plan or self._plan, self._context, label, number)
        self._stats = stats
        return bundles, stats

    def _bundles(self, plan: Operator | None = None) -> Generator[Bundle, None, None]:
        return self._execute(plan)[0]

    def _tables(self, plan: Operator | None = None) -> Iterator[pa.Table]:
        for bundle in self._bundles(plan):
            yield bundle.cut(ray.get(bundle.ref))

    def _known_columns(self) -> pa.Schema | None:
        """The schema as far as it is known without executing; None: it is not, or has no columns."""
        schema = self._schema if self._schema_known else analysis.schema(self._plan)
        return schema if schema is not None and len(schema) else None

    def _arrow_schema(self) -> pa.Schema | None:
        """The schema, executed as far as needed; None of a dataset without blocks."""
        if not self._schema_known:
            found = analysis.schema(self._plan)
            if found is None or not len(found):
                seen = []
                bundles = execute(Limit(self._plan, 1), self._context)[0]
                for bundle in bundles:
                    seen.append(bundle.schema)
                    if bundle.rows:
                        self._lacks_columns = not (bundle.schema is not None and len(bundle.schema))
                        break
                bundles.close()
                found = block.unify([s for s in seen if s is not None])
            self._schema, self._schema_known = found, True
        schema = self._schema
        return schema if schema is not None and len(schema) else None
