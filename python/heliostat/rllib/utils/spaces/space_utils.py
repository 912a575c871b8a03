"""Elements of spaces: many as one batch, a batch as its rows, actions within their bounds."""

from __future__ import annotations

from typing import Any

import numpy as np

from heliostat.rllib.utils.nest import leaves, mapped
from heliostat.rllib.utils.spaces import parts


class BatchedNdArray(np.ndarray):
    """An array whose first axis is that of a batch: :func:`batch` joins such arrays instead of stacking
    them.

    Args:
        input_array: The array.
    """

    def __new__(cls, input_array: Any) -> BatchedNdArray:
        made: BatchedNdArray = np.asarray(input_array).view(cls)
        return made


def get_base_struct_from_space(space: Any) -> Any:
    """Return a ``Dict`` or ``Tuple`` space as dicts and tuples of its parts; other spaces as they are.

    Args:
        space: The space.
    """
    return parts(space)


def batch(
    list_of_structs: list[Any], *, individual_items_already_have_batch_dim: bool | str = False
) -> Any:
    """Return items as one batch: nests of arrays with one more axis in front.

    Args:
        list_of_structs: The items: numbers, arrays, or dicts and tuples of them, all alike.
        individual_items_already_have_batch_dim: Whether items are batches, which are joined. Default False;
            ``"auto"``: those of ``BatchedNdArray`` are.

    Raises:
        ValueError: There are no items.
    """
    if not list_of_structs:
        raise ValueError("batch() got an empty list: there is nothing to make a batch of.")
    have = individual_items_already_have_batch_dim
    if have == "auto":
        have = isinstance(next(leaves(list_of_structs[0]))[1], BatchedNdArray)

    def joined(*items: Any) -> Any:
        if have:
            return np.concatenate([np.asarray(item) for item in items])
        if isinstance(items[0], np.ndarray):
            return np.stack(items)
        return np.array(items)

    return mapped(joined, *list_of_structs)


def unbatch(batches_struct: Any) -> list[Any]:
    """Return the rows of a batch: what :func:`batch` made it of.

    Args:
        batches_struct: An array, or dicts and tuples of arrays, whose first axis is the batch's.
    """
    count = len(next(leaves(batches_struct))[1])
    return [mapped(lambda leaf, row=row: leaf[row], batches_struct) for row in range(count)]


def flatten_to_single_ndarray(input_: Any) -> Any:
    """Return all numbers of a nest as one array of one axis.

    Args:
        input_: An array, or lists, dicts and tuples of arrays.
    """
    if not isinstance(input_, (list, tuple, dict)):
        return input_
    nest = tuple(input_) if isinstance(input_, list) else input_
    return np.concatenate([np.reshape(leaf, [-1]) for _, leaf in leaves(nest)])


def clip_action(action: Any, action_space: Any) -> Any:
    """Return an action within the bounds of the Boxes of its space.

    Args:
        action: The action.
        action_space: The space as ``get_base_struct_from_space`` gives it.
    """
    from gymnasium import spaces

    return mapped(
        lambda space, a: np.clip(a, space.low, space.high) if isinstance(space, spaces.Box) else a,
        action_space,
        action,
    )


def _bounded(space: Any) -> bool:
    from gymnasium import spaces

    return isinstance(space, spaces.Box) and bool(
        np.all(space.bounded_below) and np.all(space.bounded_above)
    )


def _mapped_where_bounded(change: Any, spaces: Any, action: Any) -> Any:
    def one(space: Any, a: Any) -> Any:
        return change(space, a) if _bounded(space) else a

    return mapped(one, spaces, action)


def unsquash_action(action: Any, action_space_struct: Any) -> Any:
    """Return an action of ``[-1, 1]`` as the bounded Boxes of its space have it; other parts as they are.

    Args:
        action: The action.
        action_space_struct: The space as ``get_base_struct_from_space`` gives it.
    """

    def widened(space: Any, a: Any) -> Any:
        if space.dtype.kind != "f":
            return space.low + a
        return np.clip(
            space.low + (a + 1.0) * (space.high - space.low) / 2.0, space.low, space.high
        )

    return _mapped_where_bounded(widened, action_space_struct, action)


def normalize_action(action: Any, action_space_struct: Any) -> Any:
    """Return the action of which :func:`unsquash_action` makes this one.

    Args:
        action: The action.
        action_space_struct: The space as ``get_base_struct_from_space`` gives it.
    """

    def narrowed(space: Any, a: Any) -> Any:
        if space.dtype.kind != "f":
            return a - space.low
        return (np.asarray(a) - space.low) * 2.0 / (space.high - space.low) - 1.0

    return _mapped_where_bounded(narrowed, action_space_struct, action)


def flatten_space(space: Any) -> list[Any]:
    """Return the parts of a ``Dict`` or ``Tuple`` space that are neither, one after the other.

    Args:
        space: The space.
    """
    return [leaf for _, leaf in leaves(parts(space))]


def is_composite_space(space: Any) -> bool:
    """Return whether a space is a ``Dict`` or a ``Tuple``.

    Args:
        space: The space.
    """
    return isinstance(parts(space), (dict, tuple))


def get_dummy_batch_for_space(
    space: Any,
    batch_size: int = 32,
    *,
    fill_value: float | str = 0.0,
    time_size: int | None = None,
    time_major: bool = False,
    one_hot_discrete: bool = False,
) -> Any:
    """Return a batch of elements of a space.

    Args:
        space: The space.
        batch_size: How many; 0 leaves the axis of the batch out. Default 32.
        fill_value: What each number is, or ``"random"``. Default 0.
        time_size: How many steps of time each has. Default: no axis of time.
        time_major: Whether time is the first axis. Default False.
        one_hot_discrete: Whether choices are vectors. Default False.
    """
    from gymnasium import spaces

    lead = [batch_size] if batch_size else []
    if time_size is not None:
        lead = [time_size, *lead] if time_major else [*lead, time_size]

    def one(leaf: Any) -> Any:
        shape, kind = tuple(leaf.shape), leaf.dtype
        count = 0
        if one_hot_discrete and isinstance(leaf, spaces.Discrete | spaces.MultiDiscrete):
            count = int(np.sum(leaf.nvec)) if hasattr(leaf, "nvec") else int(leaf.n)
            shape, kind = (count,), np.dtype(np.float32)
        if fill_value == "random":
            rows = [np.asarray(leaf.sample()) for _ in range(int(np.prod(lead, dtype=int)))]
            if count:
                sizes = [int(n) for n in leaf.nvec] if hasattr(leaf, "nvec") else [count]
                rows = [
                    np.concatenate(
                        [np.eye(n)[int(c)] for n, c in zip(sizes, r.ravel(), strict=True)]
                    )
                    for r in rows
                ]
            return np.stack(rows).reshape(*lead, *shape).astype(kind)
        return np.full((*lead, *shape), fill_value, kind)

    return mapped(one, parts(space))
