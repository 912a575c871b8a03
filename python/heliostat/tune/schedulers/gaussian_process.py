"""A Gaussian process over time and hyperparameters, and where it promises most.

The kernel is a squared exponential whose value fades with the distance in time (time-varying GP-UCB,
Bogunovic et al. 2016), as PB2 asks for. Its few parameters are chosen from a grid by their likelihood: a
few hundred points need no gradients.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypeAlias

    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    _Array: TypeAlias = NDArray[np.float64]

POINTS_MAX = 200
LENGTHS = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
FADINGS = (0.0, 0.02, 0.1, 0.3)
NOISES = (1e-6, 1e-2, 1e-1)
TRIES = 1000
FIXED = 2  # the leading columns, which nobody chooses: time and score before


class _Process:
    """Fitted to rows of numbers from 0 to 1, the first of which is the time."""

    def __init__(
        self, rows: _Array, gains: _Array, kernel: tuple[float, float, float] | None = None
    ):
        self._rows = rows
        if kernel is None:
            grid = itertools.product(LENGTHS, FADINGS, NOISES)
            kernel = max(grid, key=lambda one: self._fit(gains, one))
        self.kernel = kernel
        self._fit(gains, kernel)

    def _fit(self, gains: _Array, kernel: tuple[float, float, float]) -> float:
        """Keep what predictions need; the likelihood, up to a constant."""
        import numpy as np

        self._kernel = kernel
        count = len(self._rows)
        inner = self._similar(self._rows, self._rows) + np.eye(count) * (kernel[2] + 1e-8)
        self._root = np.linalg.cholesky(inner)
        self._weights = np.linalg.solve(self._root.T, np.linalg.solve(self._root, gains))
        # The scale of the kernel that suits the gains best is known in closed form.
        self._scale = max(float(gains @ self._weights) / count, 1e-12)
        return float(-count * np.log(self._scale) - 2 * np.log(np.diag(self._root)).sum())

    def _similar(self, rows: _Array, others: _Array) -> _Array:
        import numpy as np

        length, fading, _ = self._kernel
        apart = ((rows[:, None, 1:] - others[None, :, 1:]) ** 2).sum(-1)
        time = np.abs(rows[:, None, 0] - others[None, :, 0])
        return np.exp(-apart / (2 * length**2)) * (1 - fading) ** (time / 2)

    def expected(self, rows: _Array) -> _Array:
        """The gain that is expected for each row."""
        return self._similar(rows, self._rows) @ self._weights

    def variance(self, rows: _Array) -> _Array:
        """The variance of the gain of each row."""
        import numpy as np

        solved = np.linalg.solve(self._root, self._similar(self._rows, rows))
        return self._scale * np.clip(1 - (solved**2).sum(0), 0, None)


def best_gain(
    rows: Sequence[Sequence[float]],
    gains: Sequence[float],
    fixed: Sequence[float],
    bounds: Sequence[tuple[float, float]],
    chosen: Sequence[Sequence[float]] = (),
    rng: np.random.Generator | None = None,
) -> list[float]:
    """The hyperparameters whose gain may be largest: the expected one and a share of the uncertainty.

    Args:
        rows: Time, score before and hyperparameters of what is known.
        gains: What came of each.
        fixed: Time and score for which hyperparameters are chosen.
        bounds: The lowest and highest value of each hyperparameter.
        chosen: Hyperparameters whose gain is not known yet; what they will tell is not asked again.
        rng: A numpy generator. Default: seeded by numpy's global one.
    """
    import numpy as np

    rng = rng or np.random.default_rng(np.random.randint(2**31))
    known = np.asarray(rows, dtype=float)[-POINTS_MAX:]
    target = np.asarray(gains, dtype=float)[-POINTS_MAX:]
    low = np.array([pair[0] for pair in bounds])
    span = np.array([pair[1] - pair[0] for pair in bounds])
    first, reach = known[:, :FIXED].min(0), np.ptp(known[:, :FIXED], axis=0)

    def scaled(fixed_part: ArrayLike, values: ArrayLike) -> _Array:
        own = (np.asarray(fixed_part, dtype=float) - first) / (reach + 1e-8)
        return np.hstack([own, (np.asarray(values, dtype=float) - low) / (span + 1e-12)])

    points = scaled(known[:, :FIXED], known[:, FIXED:])
    target = np.clip((target - target.mean()) / (target.std() + 1e-8), -2, 2)
    process = unsure = _Process(points, target)
    if len(chosen):
        more = scaled(np.tile(fixed, (len(chosen), 1)), np.asarray(chosen))
        zeros = np.zeros(len(chosen))
        together = np.vstack([points, more]), np.concatenate([target, zeros])
        unsure = _Process(*together, kernel=process.kernel)
    eagerness = np.sqrt(0.2 + max(0.0, np.log(0.4 * len(points))))

    def promise(values: _Array) -> _Array:
        here = scaled(np.tile(fixed, (len(values), 1)), values)
        return process.expected(here) + eagerness * unsure.variance(here)

    tried = low + span * rng.random((TRIES, len(bounds)))
    best = tried[int(np.argmax(promise(tried)))]
    for width in (0.1, 0.02):  # then near to the best
        near = best + span * width * rng.normal(size=(TRIES // 4, len(bounds)))
        near = np.vstack([best, np.clip(near, low, low + span)])
        best = near[int(np.argmax(promise(near)))]
    return [float(value) for value in best]
