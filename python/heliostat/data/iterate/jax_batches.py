"""Batches as JAX arrays, spread over the devices of all processes of the program."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Union

import numpy as np

from heliostat.core.platform.extras import required
from heliostat.data.collate_fn import (
    ArrowBatchCollateFn,
    NumpyBatchCollateFn,
    PandasBatchCollateFn,
)

if TYPE_CHECKING:
    from types import ModuleType

    import jax

    from heliostat.data.aliases import Value


AXIS = "data"  # of the mesh
ADVICE = (
    "Give iter_jax_batches a collate_fn that makes numbers of it, or drop or map the column before"
)

Made = Union[dict[str, "np.ndarray | jax.Array"], "np.ndarray"]  # by a `collate_fn`, too


def jax_package() -> ModuleType:
    """The package.

    Raises:
        ImportError: It is not installed.
    """
    return required("jax", "JAX's arrays")


def format_for(collate_fn: object) -> str:
    """The format of the batches that it gets.

    Raises:
        ValueError: It is not an object of one of the three base classes.
    """
    kinds = {
        ArrowBatchCollateFn: "pyarrow",
        NumpyBatchCollateFn: "numpy",
        PandasBatchCollateFn: "pandas",
    }
    if collate_fn is None:
        return "numpy"
    for kind, name in kinds.items():
        if isinstance(collate_fn, kind):
            return name
    raise ValueError(
        "collate_fn of iter_jax_batches must be an object of a class derived from "
        "ArrowBatchCollateFn, NumpyBatchCollateFn or PandasBatchCollateFn, but it is "
        f"{type(collate_fn).__name__}."
    )


@dataclass
class Placing:
    """Makes arrays over all devices of the arrays of this process."""

    batch_size: int
    drop_last: bool
    dtypes: object
    paddings: object
    in_step: bool  # whether the processes compare the sizes of their batches

    def __post_init__(self) -> None:
        self._jax = jax_package()
        devices = self._jax.local_device_count()
        if self.batch_size <= 0 or self.batch_size % devices:
            raise ValueError(
                f"batch_size must be a positive multiple of the {devices} local JAX devices, but it is "
                f"{self.batch_size}."
            )

    def batches(self, made: Iterable[Made]) -> Iterator[Made]:
        """The batches on the devices, in one epoch."""
        several = self.in_step and self._jax.process_count() > 1
        sharding = self._sharding()
        # The loop is not a comprehension: a batch must go when the consumer drops it.
        for batch in self._same_everywhere(made) if several else self._alone(made):
            yield self._each(batch, lambda name, array: self._placed(sharding, name, array))

    def _alone(self, made: Iterable[Made]) -> Iterator[Made]:
        for batch in made:
            arrays = self._each(batch, self._typed)
            if _rows(arrays):
                yield self._full(arrays)

    def _same_everywhere(self, made: Iterable[Made]) -> Iterator[Made]:
        """Batches of which all processes have one, of one size: JAX's programs wait for each other.

        Raises:
            ValueError: A process has no batch, or a smaller one, and nothing says what to do then.
        """
        from jax.experimental import multihost_utils

        left = iter(made)
        pattern: object = None  # the first batch, for the shapes of a batch of paddings
        while True:
            batch = next(left, None)
            arrays = None if batch is None else self._each(batch, self._typed)
            pattern = arrays if pattern is None else pattern
            own = np.array([arrays is not None, _rows(arrays)], np.int32)
            has, rows = np.asarray(multihost_utils.process_allgather(own)).reshape(-1, 2).T
            if not has.any() or (self.drop_last and not has.all()):
                return
            if self.paddings is None:
                if not has.all():
                    raise ValueError(
                        f"{int((has == 0).sum())} of {len(has)} JAX processes have no more batches "
                        "while others have. Pass drop_last=True or paddings."
                    )
                if rows.min() != rows.max():
                    raise ValueError(
                        f"the JAX processes have batches of {rows.min()} to {rows.max()} rows. "
                        "Pass drop_last=True or paddings."
                    )
            if arrays is None:
                if pattern is None:
                    raise ValueError(
                        "this JAX process has no rows at all, so the shape of a batch of paddings is "
                        "not known. Pass drop_last=True, or give each process some rows."
                    )
                arrays = self._each(pattern, lambda _, array: array[:0])
            yield self._full(arrays)

    def _full(self, arrays: Made) -> Made:
        """The batch with as many rows as the devices need."""
        rows, devices = _rows(arrays), self._jax.local_device_count()
        if self.paddings is not None and rows < self.batch_size:
            return self._each(arrays, self._padded)
        if rows % devices:
            raise ValueError(
                f"a batch of {rows} rows cannot be split among the {devices} local JAX devices. Pass "
                "drop_last=True or paddings."
            )
        return arrays

    def _each(
        self, batch: Made, change: Callable[[str, np.ndarray], np.ndarray | jax.Array]
    ) -> Made:
        """The batch with each array changed; a ``collate_fn`` may give one array without a name."""
        if isinstance(batch, Mapping):
            return {name: change(name, array) for name, array in batch.items()}
        return change("", batch)

    def _typed(self, name: str, array: np.ndarray) -> np.ndarray:
        found = _of_numbers(name, np.asarray(array))
        given = self._of(self.dtypes, name)
        return found if given is None else found.astype(np.dtype(given), copy=False)

    def _padded(self, name: str, array: np.ndarray) -> np.ndarray:
        value = self._of(self.paddings, name)
        if value is None:
            raise ValueError(f"paddings has no value for column {name!r}.")
        missing = np.full((self.batch_size - len(array), *array.shape[1:]), value, array.dtype)
        return np.concatenate([array, missing])

    def _of(self, given: object, name: str) -> Value:
        """Return the value for a column: one for all, or of a dict."""
        if not isinstance(given, Mapping):
            return given
        if not name and len(given) == 1:
            return next(iter(given.values()))
        return given.get(name)

    def _placed(self, sharding: object, name: str, array: np.ndarray) -> jax.Array:
        jax = self._jax
        shape = (len(array) * jax.process_count(), *array.shape[1:])
        try:
            return jax.make_array_from_process_local_data(sharding, array, shape)
        except (TypeError, ValueError) as error:
            raise type(error)(f"column {name!r}: {error}") from error

    def _sharding(self) -> jax.sharding.NamedSharding:
        """Rows over all devices, those of a process next to each other."""
        from jax.experimental import mesh_utils
        from jax.sharding import Mesh, NamedSharding, PartitionSpec

        jax = self._jax
        try:
            devices = mesh_utils.create_device_mesh((jax.device_count(),))
        except (
            AssertionError,
            NotImplementedError,
            ValueError,
        ):  # a topology that it does not know
            devices = np.array(jax.devices())
        return NamedSharding(Mesh(devices, (AXIS,)), PartitionSpec(AXIS))


def _rows(arrays: Made | None) -> int:
    if arrays is None:
        return 0
    first = next(iter(arrays.values()), ()) if isinstance(arrays, Mapping) else arrays
    return len(first)


def _of_numbers(name: str, array: np.ndarray) -> np.ndarray:
    """The array, one of lists of equal length as an array of two dimensions.

    Raises:
        TypeError: It is of strings, bytes, times or other objects, which JAX has no arrays of.
        ValueError: Its rows differ in shape.
    """
    if array.dtype == object and len(array) and all(_is_list(value) for value in array):
        shapes = list(dict.fromkeys(np.shape(value) for value in map(np.asarray, array)))
        if len(shapes) > 1:
            raise ValueError(f"column {name!r}: its rows have the shapes {shapes[:3]}. {ADVICE}.")
        array = np.stack([np.asarray(value) for value in array])
    if array.dtype.kind in "OSUMm":
        kinds = sorted({type(value).__name__ for value in array.ravel()[:100]})
        raise TypeError(f"column {name!r}: JAX has no arrays of {', '.join(kinds)}. {ADVICE}.")
    return array


def _is_list(value: object) -> bool:
    return isinstance(value, list | tuple | np.ndarray)
