"""Operations on spaces for algorithms: buffers, sizes, scaled actions."""

from __future__ import annotations

from typing import Any

import numpy as np

from heliostat.rllib.utils.nest import mapped


def parts(space: Any) -> Any:
    """A ``Dict`` or ``Tuple`` space as the nest of its parts; other spaces as they are."""
    from gymnasium import spaces

    if isinstance(space, spaces.Dict):
        return {key: parts(part) for key, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(parts(part) for part in space.spaces)
    return space


def empty(space: Any, shape: tuple[int, ...]) -> Any:
    """Arrays for as many elements of a space as ``shape`` says."""
    return mapped(lambda leaf: np.empty(shape + tuple(leaf.shape), leaf.dtype), parts(space))


def check(space: Any, what: str) -> None:
    """Fails for a space that no default module reads.

    Raises:
        ValueError: A part of it is of unknown size, such as text, graphs and sequences.
    """
    from gymnasium import spaces

    for leaf in _leaf_spaces(space):
        if not isinstance(
            leaf, spaces.Box | spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary
        ):
            raise ValueError(
                f"The {what} space has a part {leaf}, which is not of a fixed size: wrap the environment so "
                "that it has Box, Discrete, MultiDiscrete, MultiBinary, Dict or Tuple spaces."
            )


def _leaf_spaces(space: Any) -> list[Any]:
    from heliostat.rllib.utils.nest import leaves

    return [leaf for _, leaf in leaves(parts(space))]


def encoded_size(space: Any) -> int:
    """The number of numbers that :func:`encoded` makes of one element."""
    from gymnasium import spaces

    size = 0
    for leaf in _leaf_spaces(space):
        if isinstance(leaf, spaces.Discrete):
            size += int(leaf.n)
        elif isinstance(leaf, spaces.MultiDiscrete):
            size += int(leaf.nvec.sum())
        else:
            size += int(np.prod(leaf.shape, dtype=int))
    return size


def bounded(space: Any) -> bool:
    """Whether a Box has finite bounds everywhere."""
    return bool(np.isfinite(space.low).all() and np.isfinite(space.high).all())


def unsquashed(space: Any, actions: Any) -> Any:
    """Actions of ``[-1, 1]`` as the Boxes of a space have them; others as they are."""
    from gymnasium import spaces

    def one(leaf: Any, values: Any) -> Any:
        if not isinstance(leaf, spaces.Box) or not bounded(leaf):
            return values
        low, high = leaf.low, leaf.high
        scaled = low + (np.clip(values, -1.0, 1.0) + 1.0) * (high - low) / 2.0
        return scaled.astype(leaf.dtype)

    return mapped(one, parts(space), actions)


def squashed(space: Any, actions: Any) -> Any:
    """Return the actions of which :func:`unsquashed` makes these."""
    from gymnasium import spaces

    def one(leaf: Any, values: Any) -> Any:
        if not isinstance(leaf, spaces.Box) or not bounded(leaf):
            return values
        span = np.where(leaf.high > leaf.low, leaf.high - leaf.low, 1.0)
        return ((values - leaf.low) * 2.0 / span - 1.0).astype(leaf.dtype)

    return mapped(one, parts(space), actions)


def clipped(space: Any, actions: Any) -> Any:
    """Actions within the bounds of the Boxes of a space."""
    from gymnasium import spaces

    def one(leaf: Any, values: Any) -> Any:
        return np.clip(values, leaf.low, leaf.high) if isinstance(leaf, spaces.Box) else values

    return mapped(one, parts(space), actions)


def normalized_space(space: Any) -> Any:
    """The space that a module acts in where actions are normalized: bounded Boxes are ``[-1, 1]``."""
    from gymnasium import spaces

    if isinstance(space, spaces.Dict):
        return spaces.Dict({key: normalized_space(part) for key, part in space.spaces.items()})
    if isinstance(space, spaces.Tuple):
        return spaces.Tuple([normalized_space(part) for part in space.spaces])
    if isinstance(space, spaces.Box) and bounded(space) and space.dtype.kind == "f":
        return spaces.Box(-1.0, 1.0, space.shape, space.dtype)
    return space
