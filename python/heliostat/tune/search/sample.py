"""Values of a search space that are drawn at random.

A domain says which values there are and how one is drawn. With the same seed the same numbers come as on
Ray: each draw asks numpy's generator for one number, of the same kind and in the same order.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

_MISSING: Any = object()


class Domain:
    """A set of values, and how one is drawn."""

    def sample(self, config: Any = None, size: int = 1, random_state: Any = None) -> Any:
        """Return one value, or a list of ``size`` values.

        Args:
            config: What is known of the trial so far, for ``sample_from``.
            size: How many values.
            random_state: A seed, a numpy generator, or None for numpy's global one.
        """
        rng = generator(random_state)
        drawn = [self._draw(rng, config) for _ in range(size)]
        return drawn[0] if size == 1 else drawn

    def _draw(self, rng: Any, config: Any) -> Any:
        raise NotImplementedError

    def is_valid(self, value: Any) -> bool:
        """Whether a value lies in the domain."""
        raise NotImplementedError

    def is_function(self) -> bool:
        """Whether a function of the other values gives the value."""
        return False

    @property
    def domain_str(self) -> str:
        """The values, as text."""
        return "(unknown)"


class _Numeric(Domain):
    """Numbers from ``lower`` to ``upper``."""

    def __init__(
        self,
        lower: float,
        upper: float,
        *,
        is_log: bool = False,
        normal: tuple[float, float] | None = None,
        q: float | None = None,
    ) -> None:
        self.lower, self.upper = lower, upper
        self.is_log, self.normal, self.q = is_log, normal, q
        if is_log and lower <= 0:
            raise ValueError(
                f"LogUniform requires a lower bound greater than 0. Got: {lower}. Give the bounds "
                "themselves, not their logarithms."
            )
        if is_log and not 0 < upper < math.inf:
            raise ValueError(f"LogUniform requires a finite upper bound above 0. Got: {upper}.")

    def is_valid(self, value: Any) -> bool:
        return bool(self.lower <= value <= self.upper)

    @property
    def domain_str(self) -> str:
        return f"({self.lower}, {self.upper})"

    def _real(self, rng: Any, lower: float, upper: float) -> float:
        import numpy as np

        if self.normal is not None:
            return float(rng.normal(*self.normal))
        if self.is_log:
            return float(np.exp(rng.uniform(np.log(lower), np.log(upper))))
        return float(rng.uniform(lower, upper))


class Float(_Numeric):
    """Real numbers."""

    def __init__(
        self, lower: float | None, upper: float | None, q: float | None = None, **how: Any
    ) -> None:
        low = -math.inf if lower is None else lower
        high = math.inf if upper is None else upper
        super().__init__(low, high, q=q, **how)
        for bound, name in ((lower, "lower"), (upper, "upper")):
            if q and bound is not None and math.isfinite(bound) and not _divides(q, bound):
                raise ValueError(
                    f"Your {name} variable bound {bound} is not divisible by quantization factor {q}."
                )

    def _draw(self, rng: Any, config: Any) -> float:
        if not self.q:
            return self._real(rng, self.lower, self.upper)
        lower, upper = self.lower, self.upper
        if math.isfinite(lower):
            lower = math.ceil(round(lower / self.q, 9)) * self.q
        if math.isfinite(upper):
            upper = math.floor(round(upper / self.q, 9)) * self.q
        return float(round(self._real(rng, lower, upper) / self.q) * self.q)


class Integer(_Numeric):
    """Whole numbers below ``upper``; with a step above 1 ``upper`` is one of them."""

    def is_valid(self, value: Any) -> bool:
        return float(value).is_integer() and super().is_valid(value)

    def _draw(self, rng: Any, config: Any) -> int:
        if self.q is None:
            return self._whole(rng, int(self.lower), int(self.upper))
        lower, upper = math.ceil(self.lower / self.q), math.floor(self.upper / self.q)
        if upper < lower:
            raise ValueError(f"No multiple of {self.q} lies between {self.lower} and {self.upper}.")
        return int(self._whole(rng, lower, upper if self.q == 1 else upper + 1) * self.q)

    def _whole(self, rng: Any, lower: int, upper: int) -> int:
        if self.is_log:
            return math.floor(self._real(rng, lower, upper))
        return int(rng.integers(lower, upper))


class Categorical(Domain):
    """One of some values."""

    def __init__(self, categories: Sequence[Any]) -> None:
        self.categories = list(categories)

    def _draw(self, rng: Any, config: Any) -> Any:
        import numpy as np

        return self.categories[int(rng.choice(np.arange(len(self.categories))))]

    def is_valid(self, value: Any) -> bool:
        return value in self.categories

    def __len__(self) -> int:
        return len(self.categories)

    def __getitem__(self, index: int) -> Any:
        return self.categories[index]

    @property
    def domain_str(self) -> str:
        return str(self.categories)


class Function(Domain):
    """What a function of the other values gives."""

    def __init__(self, func: Callable[..., Any]) -> None:
        if not callable(func):
            raise TypeError(f"{func} is not a callable object")
        self.func = func

    def _draw(self, rng: Any, config: Any) -> Any:
        try:
            return self.func(config)
        except (KeyError, AttributeError) as missing:
            raise Unresolved(missing) from missing

    def is_function(self) -> bool:
        return True

    def is_valid(self, value: Any) -> bool:
        return True

    @property
    def domain_str(self) -> str:
        return f"{self.func}()"


class Unresolved(Exception):
    """A function asked for a value that is not known yet."""


class _Global:
    """numpy's global generator under the names of a ``Generator``."""

    def __getattr__(self, name: str) -> Any:
        import numpy as np

        return getattr(np.random, "randint" if name == "integers" else name)


def generator(random_state: Any) -> Any:
    """A numpy generator for a seed, a generator, or None for the global one."""
    import numpy as np

    if random_state is None:
        return _Global()
    if isinstance(random_state, int | np.integer):
        return np.random.default_rng(int(random_state))
    return random_state


def _divides(q: float, value: float) -> bool:
    return abs(value / q - round(value / q)) < 1e-9


def _warn_of(base: Any) -> None:
    if base is not _MISSING:
        warnings.warn("`base` has no effect: the distribution is the same.", stacklevel=3)


def uniform(lower: float, upper: float) -> Float:
    """Draw a number between the bounds, each as likely."""
    return Float(lower, upper)


def quniform(lower: float, upper: float, q: float) -> Float:
    """Draw a multiple of ``q`` between the bounds, both included."""
    return Float(lower, upper, q)


def loguniform(lower: float, upper: float, base: Any = _MISSING) -> Float:
    """Draw a number whose logarithm is uniform between those of the bounds."""
    _warn_of(base)
    return Float(lower, upper, is_log=True)


def qloguniform(lower: float, upper: float, q: float, base: Any = _MISSING) -> Float:
    """Draw as ``loguniform``, rounded to a multiple of ``q``."""
    _warn_of(base)
    return Float(lower, upper, q, is_log=True)


def choice(categories: Sequence[Any]) -> Categorical:
    """Draw one of some values."""
    return Categorical(categories)


def randint(lower: int, upper: int) -> Integer:
    """Draw a whole number from ``lower`` to ``upper - 1``."""
    return Integer(lower, upper)


def lograndint(lower: int, upper: int, base: Any = _MISSING) -> Integer:
    """Draw a whole number from ``lower`` to ``upper - 1`` whose logarithm is about uniform."""
    _warn_of(base)
    return Integer(lower, upper, is_log=True)


def qrandint(lower: int, upper: int, q: int = 1) -> Integer:
    """Draw a multiple of ``q`` between the bounds, both included (but for ``q=1``)."""
    return Integer(lower, upper, q=q)


def qlograndint(lower: int, upper: int, q: int, base: Any = _MISSING) -> Integer:
    """Draw as ``lograndint``, a multiple of ``q`` and ``upper`` included (but for ``q=1``)."""
    _warn_of(base)
    return Integer(lower, upper, is_log=True, q=q)


def randn(mean: float = 0.0, sd: float = 1.0) -> Float:
    """Draw from a normal distribution."""
    return Float(None, None, normal=(mean, sd))


def qrandn(mean: float, sd: float, q: float) -> Float:
    """Draw from a normal distribution, rounded to a multiple of ``q``."""
    return Float(None, None, q, normal=(mean, sd))


def sample_from(func: Callable[[dict[str, Any]], Any]) -> Function:
    """Give what a function makes of the trial's other values, ``func(config)``."""
    return Function(func)
