"""The parts of a dataset whose rows were executed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from heliostat.data import checks
from heliostat.data.execute.exchanges import at_rows
from heliostat.data.expressions import col
from heliostat.data.plan.operators import Bundle, InputBlocks

if TYPE_CHECKING:
    from heliostat.actor import ActorHandle
    from heliostat.data.dataset import Dataset, MaterializedDataset

Two = tuple["MaterializedDataset", "MaterializedDataset"]
_MARK = "_is_test_row"


def _have(dataset: Dataset) -> list[Bundle]:
    if isinstance(dataset._plan, InputBlocks):
        return list(dataset._plan.bundles)
    return list(dataset._bundles())


def _cut(dataset: Dataset, bundles: list[Bundle], ends: list[int]) -> list[MaterializedDataset]:
    from heliostat.data.dataset import MaterializedDataset

    return [
        MaterializedDataset(InputBlocks(tuple(part)), dataset._context)
        for part in at_rows(bundles, ends)
    ]


def parts(
    dataset: Dataset, n: int, equal: bool, locality_hints: list[ActorHandle] | None
) -> list[MaterializedDataset]:
    """So many parts of about the same number of rows."""
    checks.integers(n=n)
    if n <= 0:
        raise ValueError(f"The number of splits {n} is not positive.")
    if locality_hints is not None and len(locality_hints) != n:
        raise ValueError(
            f"The length of locality_hints {len(locality_hints)} doesn't equal the number of "
            f"splits {n}."
        )
    bundles = _have(dataset)
    total = sum(b.rows for b in bundles)
    each, more = divmod(total, n)
    extra = 0 if equal else more
    return _cut(dataset, bundles, [each * (i + 1) + min(i + 1, extra) for i in range(n)])


def at_indices(dataset: Dataset, indices: list[int]) -> list[MaterializedDataset]:
    """Parts that begin at these row numbers."""
    if len(indices) < 1:
        raise ValueError("indices must be at least of length 1")
    for index in indices:
        checks.integers(indices=index)
    if sorted(indices) != list(indices):
        raise ValueError("indices must be sorted")
    if indices[0] < 0:
        raise ValueError("indices must be positive")
    bundles = _have(dataset)
    total = sum(b.rows for b in bundles)
    return _cut(dataset, bundles, [*(min(i, total) for i in indices), total])


def proportionately(dataset: Dataset, proportions: list[float]) -> list[MaterializedDataset]:
    """Parts of these fractions of the rows, and the rest."""
    if len(proportions) < 1:
        raise ValueError("proportions must be at least of length 1")
    for proportion in proportions:
        checks.number("proportions", proportion)
    if sum(proportions) >= 1:
        raise ValueError(
            f"proportions must sum to less than 1, got {list(proportions)}: the last part is the rest."
        )
    if any(p <= 0 for p in proportions):
        raise ValueError("proportions must be bigger than 0")
    bundles = _have(dataset)
    total = sum(b.rows for b in bundles)
    ends, done = [], 0.0
    for proportion in proportions:
        done += proportion
        ends.append(int(total * done + 1e-9))
    for i in reversed(range(len(ends) - 1)):  # no part is empty
        ends[i] = min(ends[i], ends[i + 1] - 1)
    if ends[0] <= 0:
        raise ValueError(
            f"Couldn't create non-empty splits of {total} rows with the proportions {proportions}."
        )
    return _cut(dataset, bundles, [*ends, total])


def train_and_test(
    dataset: Dataset,
    test_size: int | float,
    shuffle: bool,
    seed: int | None,
    stratify: str | None,
) -> Two:
    """The first rows, and the last ones for testing."""
    if not isinstance(test_size, int | float):
        raise TypeError(f"`test_size` must be int or float got {type(test_size)}.")
    if isinstance(test_size, float):
        if test_size <= 0 or test_size >= 1:
            raise ValueError(
                "If `test_size` is a float, it must be bigger than 0 and smaller than 1."
            )
    elif test_size < 1:
        raise ValueError(f"If `test_size` is an int, it must be positive, got {test_size}.")
    if stratify is not None:
        if shuffle:
            raise ValueError("`stratify` cannot be used with `shuffle`.")
        return _stratified(dataset, stratify, test_size)
    source = dataset.random_shuffle(seed=seed) if shuffle else dataset
    bundles = _have(source)
    total = sum(b.rows for b in bundles)
    if isinstance(test_size, float):
        test_size = total - int(total * (1 - test_size) + 1e-9)
    count = test_size
    if count >= total:
        raise ValueError(
            f"`test_size` of {count} rows must be less than the size of the dataset ({total})."
        )
    train, test = _cut(dataset, bundles, [total - count, total])
    return train, test


def _stratified(dataset: Dataset, column: str, test_size: int | float) -> Two:
    """Both sides with the values of a column in the same proportions."""
    grouped = dataset.groupby(column)
    fraction = test_size
    if not isinstance(test_size, float):
        fraction = test_size / max(1, dataset.count())

    def marked(group: pa.Table) -> pa.Table:
        rows = group.num_rows
        tests = int(rows * fraction + 1e-9)
        return group.append_column(_MARK, pa.array([i >= rows - tests for i in range(rows)]))

    both = grouped.map_groups(marked, batch_format="pyarrow").materialize()
    train, test = (
        both.filter(expr=col(_MARK) == wanted).drop_columns([_MARK]).materialize()
        for wanted in (False, True)
    )
    return train, test
