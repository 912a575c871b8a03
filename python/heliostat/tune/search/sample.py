"""Values of a search space that are drawn at random.

A domain says which values there are and how one is drawn. With the same seed the same numbers come as on
Ray: each draw asks numpy's generator for one number, of the same kind and in the same order.

Annotations are evaluated here: libraries ask that of ``is_valid`` for the type of a domain's values.
"""

import copy
import inspect
import math
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, cast

from heliostat.core.platform.extras import required
from heliostat.tune.aliases import Config
from heliostat.tune.error import ArgumentError

if TYPE_CHECKING:
    from typing_extensions import Self

_MISSING = object()


class _Numbers(Protocol):
    """The methods of a numpy ``Generator`` that draws ask for a number."""

    def uniform(self, low: float, high: float, /) -> float: ...
    def normal(self, mean: float, deviation: float, /) -> float: ...
    def integers(self, low: int, high: int, /) -> int: ...
    def choice(self, values: object, /) -> int: ...


class Domain:
    """A set of values; its sampler says how one is drawn.

    Attributes:
        sampler: Set by a method such as ``uniform``; None for the domain's usual one.
        default_sampler_cls: Makes the usual one.
    """

    sampler: "Sampler | None" = None
    default_sampler_cls: "Callable[[], Sampler] | None" = None

    def cast(self, value: object) -> Any:
        """The value as one of the domain's type."""
        return value

    def set_sampler(self, sampler: "Sampler", allow_override: bool = False) -> None:
        """Choose how values are drawn; once, if nothing else is said."""
        if self.sampler is not None and not allow_override:
            raise ValueError(
                f"{type(self).__name__} {self.domain_str} has the sampler {self.sampler} and takes no "
                f"second one, {sampler}."
            )
        self.sampler = sampler

    def get_sampler(self) -> "Sampler":
        """Return the sampler that draws values."""
        if self.sampler is not None:
            return self.sampler
        assert self.default_sampler_cls is not None
        return self.default_sampler_cls()

    def _with(self, sampler: "Sampler", allow_override: bool = False) -> "Self":
        """A copy that draws by this sampler."""
        new = copy.copy(self)
        new.set_sampler(sampler, allow_override)
        return new

    def sample(self, config: object = None, size: int = 1, random_state: object = None) -> Any:
        """Return one value, or a list of ``size`` values.

        Args:
            config: What is known of the trial so far, for ``sample_from``; a list has one for each value.
            size: How many values.
            random_state: A seed, a numpy generator, or None for numpy's global one.
        """
        rng = generator(random_state)
        return self.get_sampler().sample(self, config=config, size=size, random_state=rng)

    def is_grid(self) -> bool:
        """Whether each value gets a trial of its own."""
        return isinstance(self.sampler, Grid)

    def is_function(self) -> bool:
        """Whether a function of the other values gives the value."""
        return False

    def is_valid(self, value: Any) -> bool:
        """Whether a value lies in the domain."""
        raise NotImplementedError

    @property
    def domain_str(self) -> str:
        """The values, as text."""
        return "(unknown)"


class Sampler:
    """A way to draw a value of a domain."""

    def sample(
        self, domain: Domain, config: object = None, size: int = 1, random_state: object = None
    ) -> Any:
        """Draw a value of the domain, or a list of ``size``; the arguments are those of ``Domain.sample``."""
        rng = generator(random_state)
        drawn = [
            domain.cast(self._draw(domain, rng, config[i] if isinstance(config, list) else config))
            for i in range(size)
        ]
        return drawn[0] if size == 1 else drawn

    def _draw(self, domain: Any, rng: _Numbers, config: object) -> Any:
        raise NotImplementedError

    def __str__(self) -> str:
        return type(self).__name__


class BaseSampler(Sampler):
    """A sampler without a distribution."""

    def __str__(self) -> str:
        return "Base"


class Uniform(Sampler):
    """Each value is as likely as any other."""

    def _draw(self, domain: "_Numeric", rng: _Numbers, config: object) -> object:
        return domain._of_number(rng.uniform(domain.lower, domain.upper))


class LogUniform(Sampler):
    """The value's logarithm is uniform."""

    def __init__(self, base: object = _MISSING) -> None:
        _warn_of(base)

    def _draw(self, domain: "_Numeric", rng: _Numbers, config: object) -> float:
        np = required("numpy", "Search spaces", "tune")

        return domain._of_number(
            float(np.exp(rng.uniform(np.log(domain.lower), np.log(domain.upper))))
        )


class Normal(Sampler):
    """The value is normally distributed."""

    def __init__(self, mean: float = 0.0, sd: float = 0.0) -> None:
        if sd <= 0:
            raise ArgumentError(f"The standard deviation must be greater than 0, not {sd}.")
        self.mean, self.sd = mean, sd

    def _draw(self, domain: object, rng: _Numbers, config: object) -> float:
        return float(rng.normal(self.mean, self.sd))


class Grid(Sampler):
    """Nothing is drawn: each value gets a trial."""

    def _draw(self, domain: object, rng: _Numbers, config: object) -> NoReturn:
        raise RuntimeError("A grid has nothing to draw: each of its values gets a trial.")


class Quantized(Sampler):
    """The draws of another sampler, rounded to a multiple of ``q``."""

    def __init__(self, sampler: Sampler, q: float) -> None:
        self.sampler, self.q = sampler, q

    def get_sampler(self) -> Sampler:
        """The sampler whose values are rounded."""
        return self.sampler

    def _draw(self, domain: "_Numeric", rng: _Numbers, config: object) -> float:
        return domain._multiple(self, rng, config)


class _Numeric(Domain):
    """Numbers from ``lower`` to ``upper``."""

    lower: float
    upper: float

    def _of_number(self, value: float) -> float:
        """A number that was drawn as one of the domain's type."""
        raise NotImplementedError

    def _multiple(self, rounding: Quantized, rng: _Numbers, config: object) -> float:
        """A draw of the inner sampler, rounded to a multiple that lies between the bounds."""
        raise NotImplementedError

    def uniform(self) -> "Self":
        """The same, each number as likely."""
        return self._with(Uniform())

    def loguniform(self, base: object = _MISSING) -> "Self":
        """The same, with a uniform logarithm."""
        if self.lower <= 0:
            raise ValueError(
                f"LogUniform requires a lower bound greater than 0. Got: {self.lower}. Give the bounds "
                "themselves, not their logarithms."
            )
        if not 0 < self.upper < math.inf:
            raise ValueError(
                f"LogUniform requires a finite upper bound above 0. Got: {self.upper}."
            )
        return self._with(LogUniform(base))

    def is_valid(self, value: float) -> bool:
        return bool(self.lower <= value <= self.upper)

    @property
    def domain_str(self) -> str:
        return f"({self.lower}, {self.upper})"

    @property
    def is_log(self) -> bool:
        """Whether the logarithm is what is uniform."""
        return isinstance(_unrounded(self), LogUniform)

    @property
    def step(self) -> float | None:
        """The number of which the draws are multiples; None: of none."""
        sampler = self.get_sampler()
        return sampler.q if isinstance(sampler, Quantized) else None

    @property
    def bell(self) -> tuple[float, float] | None:
        """The mean and the standard deviation of a normal distribution."""
        sampler = _unrounded(self)
        return (sampler.mean, sampler.sd) if isinstance(sampler, Normal) else None


def _unrounded(domain: Domain) -> Sampler:
    """The sampler, without its rounding."""
    sampler = domain.get_sampler()
    return sampler.sampler if isinstance(sampler, Quantized) else sampler


class Float(_Numeric):
    """Real numbers."""

    default_sampler_cls = Uniform

    def __init__(self, lower: float | None, upper: float | None) -> None:
        self.lower = -math.inf if lower is None else lower
        self.upper = math.inf if upper is None else upper

    def cast(self, value: Any) -> float:
        return float(value)

    def uniform(self) -> "Float":
        for bound, name in ((self.lower, "lower"), (self.upper, "upper")):
            if not math.isfinite(bound):
                raise ValueError(f"Uniform requires a {name} bound, such as Float(0, 1).uniform().")
        return super().uniform()

    def normal(self, mean: float = 0.0, sd: float = 1.0) -> "Float":
        """The same, normally distributed."""
        return self._with(Normal(mean, sd))

    def quantized(self, q: float) -> "Float":
        """The same, rounded to a multiple of ``q``; the bounds must be multiples themselves."""
        for bound, name in ((self.lower, "lower"), (self.upper, "upper")):
            if math.isfinite(bound) and not _divides(q, bound):
                raise ValueError(
                    f"Your {name} variable bound {bound} is not divisible by quantization factor {q}."
                )
        return self._with(Quantized(self.get_sampler(), q), allow_override=True)

    def _of_number(self, value: float) -> float:
        return float(value)

    def _multiple(self, rounding: Quantized, rng: _Numbers, config: object) -> float:
        q, inner = rounding.q, copy.copy(self)
        if math.isfinite(self.lower):
            inner.lower = math.ceil(round(self.lower / q, 9)) * q
        if math.isfinite(self.upper):
            inner.upper = math.floor(round(self.upper / q, 9)) * q
        return float(round(rounding.sampler._draw(inner, rng, config) / q) * q)


class _Whole(Uniform):
    """Whole numbers below the upper bound, each as likely."""

    def _draw(self, domain: _Numeric, rng: _Numbers, config: object) -> int:
        return int(rng.integers(int(domain.lower), int(domain.upper)))

    def __str__(self) -> str:
        return "Uniform"


class Integer(_Numeric):
    """Whole numbers below ``upper``; with a step above 1 ``upper`` is one of them."""

    default_sampler_cls = _Whole

    def __init__(self, lower: int, upper: int) -> None:
        self.lower, self.upper = lower, upper

    def cast(self, value: Any) -> int:
        return int(value)

    def uniform(self) -> "Integer":
        return self._with(_Whole())

    def quantized(self, q: int) -> "Integer":
        """The same, multiples of ``q`` only, ``upper`` included (but for ``q=1``)."""
        return self._with(Quantized(self.get_sampler(), q), allow_override=True)

    def is_valid(self, value: int) -> bool:  # type: ignore[override] # that is asked for
        return float(value).is_integer() and super().is_valid(value)

    def _of_number(self, value: float) -> int:
        return math.floor(value)

    def _multiple(self, rounding: Quantized, rng: _Numbers, config: object) -> int:
        q = rounding.q
        lower, upper = math.ceil(self.lower / q), math.floor(self.upper / q)
        if upper < lower:
            raise ValueError(f"No multiple of {q} lies between {self.lower} and {self.upper}.")
        inner = Integer(lower, upper if q == 1 else upper + 1)
        return int(rounding.sampler._draw(inner, rng, config) * q)


class _OneOf(Uniform):
    """A draw from the categories, each as likely."""

    def _draw(self, domain: Any, rng: _Numbers, config: object) -> object:
        np = required("numpy", "Search spaces", "tune")

        return domain.categories[int(rng.choice(np.arange(len(domain.categories))))]

    def __str__(self) -> str:
        return "Uniform"


class Categorical(Domain):
    """A domain of some values."""

    default_sampler_cls = _OneOf

    def __init__(self, categories: Sequence[object]) -> None:
        self.categories = list(categories)

    def uniform(self) -> "Categorical":
        """The same, each value as likely."""
        return self._with(_OneOf())

    def grid(self) -> "Categorical":
        """The same, with a trial for each value, as ``grid_search``."""
        return self._with(Grid())

    def is_valid(self, value: Any) -> bool:
        return value in self.categories

    def __len__(self) -> int:
        return len(self.categories)

    def __getitem__(self, index: int) -> Any:
        return self.categories[index]

    @property
    def domain_str(self) -> str:
        return str(self.categories)


class Spec(dict[str, Any]):
    """A configuration that functions of ``sample_from`` read, as a dict or by attributes.

    ``config["a"]`` and, as older programs write it, ``spec.config.a``.
    """

    def __getattr__(self, name: str) -> Any:
        if name == "config" and not isinstance(self.get("config"), dict):
            return self
        try:
            return self[name]
        except KeyError as missing:
            raise AttributeError(name) from missing

    def __getitem__(self, name: str) -> Any:
        value = super().__getitem__(name)
        if isinstance(value, Domain):
            raise Unresolved(name)
        return Spec(value) if type(value) is dict else value


class _Called(BaseSampler):
    """A sampler that calls the domain's function."""

    def _draw(self, domain: "Function", rng: _Numbers, config: object) -> object:
        read = Spec(config) if type(config) is dict else config
        try:
            return domain.func(read) if domain.pass_config else domain.func()
        except (KeyError, AttributeError) as missing:
            raise Unresolved(missing) from missing


class Function(Domain):
    """A domain of the values of a function of the other values, or of one without arguments."""

    default_sampler_cls = _Called

    def __init__(self, func: Callable[..., object]) -> None:
        if not callable(func):
            raise TypeError(f"{func} is not a callable object")
        self.func, self.pass_config = func, _takes_one(func)

    def is_function(self) -> bool:
        return True

    def is_valid(self, value: Any) -> bool:
        return True

    @property
    def domain_str(self) -> str:
        return f"{self.func}()"


def _takes_one(func: Callable[..., object]) -> bool:
    """Whether the function is called with the configuration; false if it takes no argument."""
    try:
        signature = inspect.signature(func)
    except ValueError:  # built in
        return True
    for count in (1, 0):
        try:
            signature.bind(*[{}] * count)
        except TypeError:
            continue
        return bool(count)
    raise ValueError(f"{func} must take one argument, the configuration, or none.")


class Unresolved(Exception):
    """A function asked for a value that is not known yet; a ``KeyError`` is its cause where there is none."""


class _BackwardsCompatibleNumpyRng:
    """numpy's random numbers by the names of a ``Generator``. FLAML's searchers make these by Ray's name.

    Args:
        generator_or_seed: A generator, a ``RandomState``, a seed, or None for numpy's global numbers.
    """

    def __init__(self, generator_or_seed: object = None) -> None:
        np = required("numpy", "Search spaces", "tune")

        if isinstance(generator_or_seed, int | np.integer):
            generator_or_seed = np.random.default_rng(int(generator_or_seed))
        self._rng = np.random if generator_or_seed is None else generator_or_seed

    @property
    def rng(self) -> object:
        """The generator of the numbers."""
        return self._rng

    @property
    def legacy_rng(self) -> bool:
        """Whether that has the older names of methods."""
        return not hasattr(self._rng, "integers")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # as copy and pickle ask, before there is a generator
            raise AttributeError(name)
        older = {"integers": "randint", "random": "rand"} if self.legacy_rng else {}
        return getattr(self._rng, older.get(name, name))


def generator(random_state: object) -> _Numbers:
    """A numpy generator for a seed, a generator, or None for the global one."""
    if random_state is None or isinstance(random_state, int) or hasattr(random_state, "dtype"):
        random_state = _BackwardsCompatibleNumpyRng(random_state)
    return cast(_Numbers, random_state)  # the class above has the methods by __getattr__


def _divides(q: float, value: float) -> bool:
    return abs(value / q - round(value / q)) < 1e-9


def _warn_of(base: object) -> None:
    if base is not _MISSING:
        warnings.warn("`base` has no effect: the distribution is the same.", stacklevel=3)


def uniform(lower: float, upper: float) -> Float:
    """Draw a number between the bounds, each as likely.

    Args:
        lower: The least value.
        upper: The greatest value; it is not drawn itself.

    Returns:
        A domain for ``param_space``.

    Examples:
        >>> from ray import tune
        >>> 0.0 <= tune.uniform(0.0, 1.0).sample() <= 1.0
        True
    """
    return Float(lower, upper).uniform()


def quniform(lower: float, upper: float, q: float) -> Float:
    """Draw a multiple of ``q`` between the bounds, both included.

    Args:
        lower: The least value.
        upper: The greatest value, which may be drawn.
        q: The step: values are multiples of it.

    Returns:
        A domain for ``param_space``.

    Examples:
        >>> from ray import tune
        >>> tune.quniform(0.0, 1.0, 0.25).sample() in (0.0, 0.25, 0.5, 0.75, 1.0)
        True
    """
    return Float(lower, upper).uniform().quantized(q)


def loguniform(lower: float, upper: float, base: object = _MISSING) -> Float:
    """Draw a number whose logarithm is uniform between those of the bounds.

    Args:
        lower: The least value, above 0.
        upper: The greatest value; it is not drawn itself.
        base: Has no effect, with a warning: the distribution is the same for every base.

    Returns:
        A domain for ``param_space``.

    Examples:
        >>> from ray import tune
        >>> 1e-5 <= tune.loguniform(1e-5, 1e-1).sample() <= 1e-1
        True
    """
    _warn_of(base)
    return Float(lower, upper).loguniform()


def qloguniform(lower: float, upper: float, q: float, base: object = _MISSING) -> Float:
    """Draw as ``loguniform``, rounded to a multiple of ``q``.

    Args:
        lower: The least value, above 0.
        upper: The greatest value; it is not drawn itself.
        q: The step: values are multiples of it.
        base: Has no effect, with a warning: the distribution is the same for every base.

    Returns:
        A domain for ``param_space``.

    Examples:
        >>> from ray import tune
        >>> 0.001 <= tune.qloguniform(0.001, 0.1, 0.0005).sample() <= 0.1
        True
    """
    _warn_of(base)
    return Float(lower, upper).loguniform().quantized(q)


def choice(categories: Sequence[object]) -> Categorical:
    """Draw one of some values.

    Args:
        categories: The values.

    Returns:
        A domain for ``param_space``.

    Examples:
        >>> from ray import tune
        >>> tune.choice(["sgd", "adam"]).sample() in ("sgd", "adam")
        True
    """
    return Categorical(categories).uniform()


def randint(lower: int, upper: int) -> Integer:
    """Draw a whole number.

    Args:
        lower: The least value.
        upper: The greatest value; it is not drawn itself.

    Returns:
        A domain for ``param_space``.

    Examples:
        >>> from ray import tune
        >>> tune.randint(0, 3).sample() in (0, 1, 2)
        True
    """
    return Integer(lower, upper).uniform()


def lograndint(lower: int, upper: int, base: object = _MISSING) -> Integer:
    """Draw a whole number whose logarithm is about uniform.

    Args:
        lower: The least value, above 0.
        upper: The greatest value; it is not drawn itself.
        base: Has no effect, with a warning: the distribution is the same for every base.

    Returns:
        A domain for ``param_space``.

    Examples:
        >>> from ray import tune
        >>> tune.lograndint(1, 1000).sample() in range(1, 1000)
        True
    """
    _warn_of(base)
    return Integer(lower, upper).loguniform()


def qrandint(lower: int, upper: int, q: int = 1) -> Integer:
    """Draw a multiple of ``q`` between the bounds, both included (but for ``q=1``).

    Args:
        lower: The least value.
        upper: The greatest value, which may be drawn (but for ``q=1``).
        q: The step: values are multiples of it. Default 1.

    Returns:
        A domain for ``param_space``.

    Examples:
        >>> from ray import tune
        >>> tune.qrandint(16, 64, 16).sample() in (16, 32, 48, 64)
        True
    """
    return Integer(lower, upper).uniform().quantized(q)


def qlograndint(lower: int, upper: int, q: int, base: object = _MISSING) -> Integer:
    """Draw a whole number whose logarithm is about uniform, a multiple of ``q``.

    Args:
        lower: The least value, above 0.
        upper: The greatest value, which may be drawn (but for ``q=1``).
        q: The step: values are multiples of it.
        base: Has no effect, with a warning: the distribution is the same for every base.

    Returns:
        A domain for ``param_space``.

    Examples:
        >>> from ray import tune
        >>> tune.qlograndint(8, 64, 8).sample() in range(8, 65, 8)
        True
    """
    _warn_of(base)
    return Integer(lower, upper).loguniform().quantized(q)


def randn(mean: float = 0.0, sd: float = 1.0) -> Float:
    """Draw from a normal distribution.

    Args:
        mean: The average. Default 0.
        sd: The standard deviation. Default 1.

    Returns:
        A domain for ``param_space``.

    Examples:
        >>> from ray import tune
        >>> space = {"offset": tune.randn(mean=10.0, sd=2.0)}
        >>> isinstance(space["offset"].sample(), float)
        True
    """
    return Float(None, None).normal(mean, sd)


def qrandn(mean: float, sd: float, q: float) -> Float:
    """Draw from a normal distribution, rounded to a multiple of ``q``.

    Args:
        mean: The average.
        sd: The standard deviation.
        q: The step: values are multiples of it.

    Returns:
        A domain for ``param_space``.

    Examples:
        >>> from ray import tune
        >>> float(tune.qrandn(10.0, 2.0, 0.5).sample() * 2).is_integer()
        True
    """
    return Float(None, None).normal(mean, sd).quantized(q)


def sample_from(func: Callable[[Config], object]) -> Function:
    """Give what a function makes of the trial's other values, ``func(config)``.

    Args:
        func: Takes the trial's configuration, a dict; returns a value.

    Returns:
        A domain for ``param_space``.

    Examples:
        >>> from ray import tune
        >>> space = {"a": tune.randint(1, 9), "b": tune.sample_from(lambda config: config["a"] * 2)}
    """
    return Function(func)
