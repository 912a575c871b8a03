"""Advantages and returns of rollouts, for all environments at once."""

from __future__ import annotations

from typing import Any

import numpy as np


def next_values(
    values: Any, last: Any, terminateds: Any, truncateds: Any, final_at: Any, final: Any
) -> Any:
    """The value of what each step led to.

    Args:
        values: Of what was observed before each step, ``(steps, environments)``.
        last: Of what environments show after the last step, ``(environments,)``.
        terminateds: Where episodes ended by their own rules: nothing follows.
        truncateds: Where they were cut off: the value of what they ended with follows.
        final_at: Steps and environments of ends, ``(ends, 2)``.
        final: Values of what they ended with, ``(ends,)``.
    """
    found = np.concatenate([values[1:], last[None]])
    for (step, env), value in zip(final_at, final, strict=True):
        found[step, env] = value
    return np.where(terminateds, 0.0, found)


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
    """
    deltas = rewards + gamma * following - values
    kept = gamma * lambda_ * (1.0 - over)
    found = np.empty_like(deltas)
    running = np.zeros(deltas.shape[1:], deltas.dtype)
    for step in range(len(deltas) - 1, -1, -1):
        running = deltas[step] + kept[step] * running
        found[step] = running
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
    """
    ratios = np.exp(log_ratios)
    rho, trace = np.minimum(ratios, clip_rho), np.minimum(ratios, 1.0)
    deltas = rho * (rewards + gamma * following - values)
    kept = gamma * trace * (1.0 - over)
    found = np.empty_like(deltas)
    running = np.zeros(deltas.shape[1:], deltas.dtype)
    for step in range(len(deltas) - 1, -1, -1):
        running = deltas[step] + kept[step] * running
        found[step] = running
    targets = values + found
    # What a step led to counts by its target where the episode goes on, by its value where it was cut off.
    after = np.concatenate([targets[1:], following[-1:]])
    after = np.where(over.astype(bool), following, after)
    return targets, np.minimum(ratios, clip_pg_rho) * (rewards + gamma * after - values)


def n_step(rewards: Any, over: Any, gamma: float, steps: int) -> tuple[Any, Any]:
    """Sums of the next rewards, and how many steps each sum has, ``(steps, environments)``.

    Args:
        rewards: Of each step.
        over: Where episodes ended.
        gamma: What a reward one step later counts.
        steps: How many rewards at most.
    """
    total = rewards.astype(np.float32).copy()
    length = np.ones(rewards.shape, np.int64)
    running = ~over.astype(bool)
    for ahead in range(1, steps):
        later = np.zeros_like(total)
        later[:-ahead] = rewards[ahead:]
        inside = np.zeros(rewards.shape, bool)
        inside[:-ahead] = True
        use = running & inside
        total += np.where(use, gamma**ahead * later, 0.0)
        length += use
        ended = np.ones(rewards.shape, bool)
        ended[:-ahead] = over[ahead:].astype(bool)
        running = use & ~ended
    return total, length
