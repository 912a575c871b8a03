"""Seeds of what datasets draw at random."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np


@dataclass
class RandomSeedConfig:
    """A seed, and whether each execution draws anew.

    Args:
        seed: None: every execution draws something else, and nothing repeats it.
        reseed_after_execution: Executions of the same dataset draw differently, in an order that is the
            same in the next run of the program. Otherwise all of them draw the same.
        use_timestamp_as_default: Without effect: what has no seed is drawn once an execution, so that a
            task that is repeated draws the same in any case.

    Raises:
        ValueError: ``seed`` is neither None nor an integer.

    Examples:
        >>> import ray
        >>> from ray.data import RandomSeedConfig
        >>> seed = RandomSeedConfig(seed=7, reseed_after_execution=False)
        >>> ds = ray.data.range(100).random_sample(0.1, seed=seed)
        >>> ds.take_all() == ds.take_all()
        True
    """

    seed: int | None = None
    reseed_after_execution: bool = True
    use_timestamp_as_default: bool = False

    def __post_init__(self) -> None:
        if self.seed is not None and not isinstance(self.seed, int):
            raise ValueError(f"Seed must be an integer or None, got {self.seed!r}.")


Seed = int | RandomSeedConfig | None


def checked(seed: object) -> Seed:
    """A seed that a program gave.

    Raises:
        ValueError: It is not an integer, ``RandomSeedConfig`` or None, or is negative.
    """
    whole = seed.seed if isinstance(seed, RandomSeedConfig) else seed
    if whole is not None and (not isinstance(whole, int | np.integer) or whole < 0):
        raise ValueError(
            f"`seed` must be None, an integer that is not negative or a RandomSeedConfig, got {seed!r}."
        )
    return cast("Seed", seed)


def drawn(seed: Seed, execution: int) -> int | None:
    """The seed of an execution, by its number; None: there is none."""
    if not isinstance(seed, RandomSeedConfig):
        return None if seed is None else int(seed)
    if seed.seed is None or not seed.reseed_after_execution:
        return seed.seed
    return int(np.random.SeedSequence([seed.seed, execution]).generate_state(1, np.uint64)[0])
