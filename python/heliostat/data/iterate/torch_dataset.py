"""A dataset as torch's ``IterableDataset`` of features and label, for ``DataIterator.to_torch``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Union, cast

import torch

from heliostat.data import missing, tensors
from heliostat.data.iterate.torch_batches import tensor_of

if TYPE_CHECKING:
    import pyarrow as pa

    from heliostat.data.aliases import Value


Names = Sequence[str]
# One tensor, or several in a list or by name.
Tensors = Union["torch.Tensor", list["torch.Tensor"], Mapping[str, "torch.Tensor"]]
Pair = tuple[Tensors, Union["torch.Tensor", None]]
Features = Names | Sequence[Names] | Mapping[str, Names] | None


class TorchDataset(torch.utils.data.IterableDataset):  # type: ignore[misc] # torch is untyped here
    """Every ``for`` over it is an epoch."""

    def __init__(self, tables: Iterable[pa.Table], pair: Callable[[pa.Table], Pair]) -> None:
        self._tables, self._pair = tables, pair

    def __iter__(self) -> Iterator[Pair]:
        for table in self._tables:
            yield self._pair(table)


@dataclass
class Pairs:
    """The function that makes a table into the tensors of its features and of its label."""

    label: str | None
    label_dtype: torch.dtype | None
    features: Features
    dtypes: torch.dtype | Sequence[torch.dtype] | Mapping[str, torch.dtype] | None
    unsqueezes_label: bool
    unsqueezes_features: bool

    def __post_init__(self) -> None:
        self.features = self.features or None
        if isinstance(self.features, Mapping):
            self._require_like(Mapping, "a dict", "a dict")
            groups = list(self.features.values())
        elif self._are_groups():
            self._require_like((list, tuple), "a list of lists", "a list")
            groups = list(self.features or ())
        else:
            if self.dtypes is not None and not isinstance(self.dtypes, torch.dtype):
                raise TypeError(
                    "feature_column_dtypes must be None or one torch.dtype where the features are one "
                    f"tensor, but it is {type(self.dtypes).__name__}."
                )
            return
        if not all(groups):
            raise ValueError("feature_columns has an entry without columns.")

    def __call__(self, table: pa.Table) -> Pair:
        """The features and the label of a batch."""
        label = None
        if self.label:
            label = _tensor(table, [self.label], self.label_dtype, self.unsqueezes_label)
            table = table.drop_columns([self.label])
        return self._features(table), label

    def _features(self, table: pa.Table) -> Tensors:
        def one(names: Names, dtype: torch.dtype | None) -> torch.Tensor:
            return _tensor(table, names, dtype, self.unsqueezes_features)

        wanted, given = self.features, self.dtypes
        if wanted is None:
            return one(table.column_names, given)
        if isinstance(wanted, Mapping):
            by_key = given if isinstance(given, Mapping) else dict.fromkeys(wanted, given)
            return {key: one(names, by_key[key]) for key, names in wanted.items()}
        if self._are_groups():
            types = given if isinstance(given, list | tuple) else [given] * len(wanted)
            return [one(names, dtype) for names, dtype in zip(wanted, types, strict=True)]
        return one(cast("Names", wanted), given)

    def _are_groups(self) -> bool:
        wanted = self.features
        return isinstance(wanted, list | tuple) and isinstance(wanted[0], list | tuple)

    def _require_like(
        self,
        kinds: type[Collection[Value]] | tuple[type[Collection[Value]], ...],
        columns: str,
        types: str,
    ) -> None:
        """Raise unless the types are one for all, or as many as the groups."""
        given, wanted = self.dtypes, self.features
        if given is None or isinstance(given, torch.dtype) or wanted is None:
            return
        if not isinstance(given, kinds):
            raise TypeError(
                f"feature_columns is {columns}, so feature_column_dtypes must be None, one torch.dtype "
                f"or {types}, but it is {type(given).__name__}."
            )
        is_dict = isinstance(wanted, Mapping)
        if (set(given) != set(wanted)) if is_dict else (len(given) != len(wanted)):
            what = "keys" if is_dict else "length"
            raise ValueError(
                f"feature_columns and feature_column_dtypes must have the same {what}."
            )


def _tensor(
    table: pa.Table, names: Names, dtype: torch.dtype | None, unsqueezes: bool
) -> torch.Tensor:
    """The columns side by side."""
    unknown = [name for name in names if name not in table.column_names]
    if unknown:
        raise ValueError(f"to_torch: {missing.no_columns(unknown, table.column_names)}")
    alone = len(names) == 1
    made = [_column(table, name, dtype, own=alone) for name in names]
    if unsqueezes:
        made = [tensor.unsqueeze(1) for tensor in made]
    if alone:
        return made[0]
    shapes = {name: tuple(tensor.shape) for name, tensor in zip(names, made, strict=True)}
    dimensions = {len(shape) for shape in shapes.values()}
    rest = {(shape[:1], shape[2:]) for shape in shapes.values()}
    if dimensions == {1} or len(dimensions) > 1 or len(rest) > 1:
        raise ValueError(
            f"to_torch: columns of the shapes {shapes} do not make one tensor: pass groups of "
            "columns as feature_columns"
            + ("." if unsqueezes else ", or unsqueeze_feature_tensors=True.")
        )
    return torch.cat(made, dim=1)


def _column(table: pa.Table, name: str, dtype: torch.dtype | None, own: bool) -> torch.Tensor:
    try:
        return tensor_of(tensors.stacked(table.column(name)), dtype, own)
    except (TypeError, RuntimeError) as error:
        raise ValueError(f"to_torch: column {name!r}: {error}") from error
