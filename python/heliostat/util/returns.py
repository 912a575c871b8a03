"""Advantages and returns of steps of environments, for all environments at once, and choices by priority.

The loops are in Rust (``crates/helio-returns``), on views of the arrays: what is in float32 (bool, of truth
values) is not copied, in whatever order it lies. Results are float32.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from heliostat import _heliostat


def _numbers(array: Any, dtype: Any = np.float32) -> Any:
    found = np.asarray(array, dtype)
    # Views that go backwards are the only ones that are copied.
    return found if min(found.strides, default=0) >= 0 else found.copy()


def _truths(array: Any) -> Any:
    return _numbers(array, np.bool_)


def next_values(values: Any, last: Any, terminateds: Any, final_at: Any, final: Any) -> Any:
    """The value of what each step led to.

    Args:
        values: Of what was observed before each step, ``(steps, environments)``.
        last: Of what environments show after the last step, ``(environments,)``.
        terminateds: Where episodes ended by their own rules: nothing follows.
        final_at: Steps and environments of ends, ``(ends, 2)``.
        final: Values of what they ended with, ``(ends,)``: they follow where episodes were cut off.

    Raises:
        ValueError: Shapes do not fit, or an end is at no step.
    """
    values = _numbers(values)
    found = np.empty(values.shape, np.float32)
    places = _numbers(final_at, np.int64).reshape(-1, 2)
    last, final = np.ascontiguousarray(last, np.float32), np.ascontiguousarray(final, np.float32)
    _heliostat._following(values, last, _truths(terminateds), places, final, found)
    return found


def advantages(
    rewards: Any, values: Any, following: Any, over: Any, gamma: float, lambda_: float
) -> Any:
    """Generalized advantage estimates, ``(steps, environments)``.

    Args:
        rewards: Of each step.
        values: Of what was observed before each step.
        following: Of what each step led to (:func:`next_values`).
        over: Where episodes ended.
        gamma: What a reward one step later counts.
        lambda_: Between 0, one step's difference, and 1, the rest of the episode.

    Raises:
        ValueError: Shapes differ.
    """
    rewards = _numbers(rewards)
    found = np.empty(rewards.shape, np.float32)
    _heliostat._advantages(
        rewards, _numbers(values), _numbers(following), _truths(over), gamma, lambda_, found
    )
    return found


def vtrace(
    log_ratios: Any,
    rewards: Any,
    values: Any,
    following: Any,
    over: Any,
    gamma: float,
    clip_rho: float = 1.0,
    clip_pg_rho: float = 1.0,
) -> tuple[Any, Any]:
    """Targets of values, and advantages of policies, of actions that an older policy chose.

    Args:
        log_ratios: Logs of how much likelier each action is now, ``(steps, environments)``.
        rewards: Of each step.
        values: Of what was observed before each step.
        following: Of what each step led to (:func:`next_values`).
        over: Where episodes ended.
        gamma: What a reward one step later counts.
        clip_rho: The bound of ratios in targets.
        clip_pg_rho: The bound of ratios in advantages.

    Returns:
        Targets and advantages, ``(steps, environments)``.

    Raises:
        ValueError: Shapes differ.
    """
    rewards = _numbers(rewards)
    targets, found = np.empty(rewards.shape, np.float32), np.empty(rewards.shape, np.float32)
    clips = (float(clip_rho), float(clip_pg_rho))
    columns = (_numbers(log_ratios), rewards, _numbers(values), _numbers(following), _truths(over))
    _heliostat._vtrace(*columns, gamma, clips, targets, found)
    return targets, found


def n_step(rewards: Any, over: Any, gamma: float, steps: int) -> tuple[Any, Any]:
    """Sums of the next rewards, and how many steps each sum has, ``(steps, environments)``.

    Args:
        rewards: Of each step.
        over: Where episodes ended.
        gamma: What a reward one step later counts.
        steps: How many rewards at most.

    Raises:
        ValueError: Shapes differ.
    """
    rewards = _numbers(rewards)
    total, length = np.empty(rewards.shape, np.float32), np.empty(rewards.shape, np.int64)
    _heliostat._n_step(rewards, _truths(over), gamma, steps, total, length)
    return total, length


class Chances:
    """Places, each drawn as often as its chance is of the whole.

    Args:
        count: How many places there are; at first each has a chance of 0.
    """

    def __init__(self, count: int) -> None:
        # A tree: each node has the sum of the two below it, and places begin in the middle.
        self._sums = np.zeros(2 << (count - 1).bit_length())

    def set(self, places: Any, chances: Any) -> None:
        """Give places their chances.

        Args:
            places: Their numbers, ``(places,)``.
            chances: A number for all of them, or one each.

        Raises:
            ValueError: There is no such place, or not one chance for each.
        """
        given = np.ascontiguousarray(chances, np.float64).reshape(-1)
        _heliostat._set_chances(self._sums, np.ascontiguousarray(places, np.int64), given)

    def draw(self, randoms: Any, size: int, beta: float) -> tuple[Any, Any]:
        """Draw a place for each random number of 0 to 1.

        Args:
            randoms: The numbers: each draws from an equal part of the whole, so that few are drawn twice.
            size: Places from there on are not drawn.
            beta: How much weights make up for chances: 1 for wholly, 0 for not at all.

        Returns:
            Places in int64, and weights of at most 1 in float32.

        Raises:
            ValueError: There are not as many places as ``size``.
        """
        randoms = np.ascontiguousarray(randoms, np.float64)
        places, weights = np.empty(len(randoms), np.int64), np.empty(len(randoms), np.float32)
        _heliostat._draw_places(self._sums, randoms, size, beta, places, weights)
        return places, weights
