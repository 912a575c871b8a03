"""Several datasets into one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from heliostat.data.dataset.base import Base
from heliostat.data.execute import joins
from heliostat.data.missing import require
from heliostat.data.plan.operators import Mix, MixStoppingCondition, Union

if TYPE_CHECKING:
    from heliostat.data.dataset import Dataset


class Combine(Base):
    """Part of ``Dataset``."""

    def union(self, *other: Dataset) -> Dataset:
        """Return the rows of this dataset and then those of the others.

        Args:
            *other: The other datasets.

        Examples:
            >>> import ray
            >>> ray.data.range(1).union(ray.data.range(2)).take_all()
            [{'id': 0}, {'id': 0}, {'id': 1}]
        """
        return self._derive(Union((self._plan, *(o._plan for o in other))))

    def mix(
        self,
        *other: Dataset,
        weights: list[float] | None = None,
        stopping_condition: MixStoppingCondition = MixStoppingCondition.STOP_ON_LONGEST_DROP,
    ) -> Dataset:
        """Return the blocks of several datasets by turns, their rows in the ratio of ``weights``.

        Every block is of one dataset: the one whose rows are the furthest behind its share.

        Args:
            *other: The other datasets.
            weights: A positive number for this dataset and for each other one. Default: all alike.
            stopping_condition: Whether the first dataset that ends the mix ends it for all, or the others
                go on until all have ended.

        Raises:
            ValueError: There is not one weight for each dataset, or one is not positive.
        """
        datasets = (self, *other)
        shares = tuple([1.0] * len(datasets) if weights is None else weights)
        if len(shares) != len(datasets):
            raise ValueError(
                f"Number of datasets ({len(datasets)}) must match number of weights ({len(shares)})."
            )
        if any(share <= 0 for share in shares):
            raise ValueError(f"Weights must be positive, got {list(shares)}.")
        stopping = MixStoppingCondition(stopping_condition)
        return self._derive(Mix(tuple(d._plan for d in datasets), shares, stopping))

    def zip(self, *other: Dataset) -> Dataset:
        """Return the columns of several datasets side by side; a name that is taken gets "_1".

        Args:
            *other: The other datasets, of as many rows.

        Raises:
            ValueError: While executing: the numbers of rows differ.

        Examples:
            >>> import ray
            >>> ray.data.range(1).zip(ray.data.from_items(["a"])).take_all()
            [{'id': 0, 'item': 'a'}]
        """
        return self._exchange("Zip", joins.Zip(), *other)

    def join(
        self,
        ds: Dataset,
        join_type: str,
        num_partitions: int | None = None,
        on: tuple[str, ...] | str = ("id",),
        right_on: tuple[str, ...] | str | None = None,
        left_suffix: str | None = None,
        right_suffix: str | None = None,
        *,
        partition_size_hint: int | None = None,
        aggregator_ray_remote_args: dict[str, Any] | None = None,
        validate_schemas: bool = False,
    ) -> Dataset:
        """Return this dataset joined with another one.

        Args:
            ds: The right side.
            join_type: "inner", "left_outer", "right_outer", "full_outer", "left_semi", "right_semi",
                "left_anti" or "right_anti".
            num_partitions: Tasks that join; default: by the data.
            on: Key columns.
            right_on: Key columns of the right side, if they have other names.
            left_suffix: Added to columns that both sides have, besides the keys.
            right_suffix: The same, for the right side.
            partition_size_hint: Without effect.
            aggregator_ray_remote_args: Options of the joining tasks.
            validate_schemas: Find out both sides' columns now, if that takes to execute them; else the keys
                are looked at now where the columns are known, and when it is executed, before rows move.

        Raises:
            ValueError: An unknown kind of join, keys that do not match, or one that a side lacks. While
                executing: both sides have a column of the same name, and no suffix tells them apart.

        Examples:
            >>> import ray
            >>> left = ray.data.from_items([{"id": 1, "a": "x"}, {"id": 2, "a": "y"}])
            >>> right = ray.data.from_items([{"id": 2, "b": "z"}])
            >>> left.join(right, "inner", on="id").take_all()
            [{'id': 2, 'a': 'y', 'b': 'z'}]
        """
        left = (on,) if isinstance(on, str) else tuple(on)
        other = on if right_on is None else right_on
        right = (other,) if isinstance(other, str) else tuple(other)
        if join_type not in joins.KINDS:
            raise ValueError(
                f"Invalid join type: {join_type!r}. Must be one of {', '.join(joins.KINDS)}."
            )
        if num_partitions is not None and num_partitions < 1:
            raise ValueError(f"`num_partitions` must be positive, got {num_partitions}.")
        if len(left) != len(right):
            raise ValueError(f"`on` has {len(left)} columns and `right_on` {len(right)}.")
        run = joins.Join(
            joins.KINDS[join_type],
            list(left),
            list(right),
            num_partitions,
            left_suffix,
            right_suffix,
            aggregator_ray_remote_args or {},
        )
        for side, keys, which in ((self, left, "left"), (ds, right, "right")):
            known: Any = side.schema(fetch_if_missing=False)  # type: ignore[attr-defined] # of Consume
            if validate_schemas:
                known = side._arrow_schema() or pa.schema([])
            require(keys, known, f"join: the {which} side")
        return self._exchange(f"Join({join_type})", run, ds)
