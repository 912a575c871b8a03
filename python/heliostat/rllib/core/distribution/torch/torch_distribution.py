"""Distributions of actions, made of a module's outputs."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from heliostat.core.platform.extras import required
from heliostat.rllib.core.distribution.distribution import Distribution
from heliostat.rllib.utils.nest import leaves, mapped
from heliostat.rllib.utils.spaces import parts

torch = required("torch", "ray.rllib", "rllib")


class TorchDistribution(Distribution):
    """Base of distributions over torch's."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._dist = self._get_torch_distribution(*args, **kwargs)

    def _get_torch_distribution(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    def logp(self, value: Any, **kwargs: Any) -> Any:
        """Return the log of the likelihood of actions, of shape ``(batch,)``."""
        return self._dist.log_prob(value)

    def entropy(self) -> Any:
        """Return the entropy, of shape ``(batch,)``."""
        return self._dist.entropy()

    def kl(self, other: Any) -> Any:
        """Return the divergence from another distribution of the kind, of shape ``(batch,)``."""
        return torch.distributions.kl.kl_divergence(self._dist, other._dist)

    def sample(self, *, sample_shape: Any = None, **kwargs: Any) -> Any:
        """Return random actions, without a gradient."""
        return self._dist.sample(sample_shape or torch.Size())

    def rsample(self, *, sample_shape: Any = None, **kwargs: Any) -> Any:
        """Return random actions that gradients pass through."""
        return self._dist.rsample(sample_shape or torch.Size())


class TorchCategorical(TorchDistribution):
    """A distribution over a number of actions, by logits.

    Made once a step of all environments, and computed by few operations: torch's own distribution costs
    more than the module does.
    """

    def __init__(self, logits: Any = None, probs: Any = None) -> None:
        self._given = (logits, probs)
        if type(self)._get_torch_distribution is not TorchCategorical._get_torch_distribution:
            logits = self._dist.logits
        elif logits is None:
            logits = probs.log()
        # An impossible action has the log of the smallest number, so that products with 0 are 0.
        least = torch.finfo(logits.dtype).min
        self._logp = torch.log_softmax(logits, dim=-1).clamp(min=least)

    @functools.cached_property
    def _dist(self) -> Any:
        return self._get_torch_distribution(*self._given)

    def _get_torch_distribution(self, logits: Any = None, probs: Any = None) -> Any:
        return torch.distributions.Categorical(logits=logits, probs=probs, validate_args=False)

    @staticmethod
    def required_input_dim(space: Any, **kwargs: Any) -> int:
        """Return the number of logits."""
        return int(space.n)

    @classmethod
    def from_logits(cls, logits: Any, **kwargs: Any) -> TorchCategorical:
        """Make the distribution of logits of shape ``(batch, n)``."""
        return cls(logits=logits)

    def logp(self, value: Any, **kwargs: Any) -> Any:
        """Return the log of the likelihood of actions, of shape ``(batch,)``."""
        return self._logp.gather(-1, value.long().unsqueeze(-1)).squeeze(-1)

    def entropy(self) -> Any:
        """Return the entropy, of shape ``(batch,)``."""
        return -(self._logp.exp() * self._logp).sum(-1)

    def kl(self, other: Any) -> Any:
        """Return the divergence from another distribution of the kind, of shape ``(batch,)``."""
        return (self._logp.exp() * (self._logp - other._logp)).sum(-1)

    def sample(self, *, sample_shape: Any = None, **kwargs: Any) -> Any:
        """Return random actions, without a gradient."""
        if sample_shape:
            return super().sample(sample_shape=sample_shape)
        logp = self._logp.detach()
        # The first of waiting times whose rates are the likelihoods: torch.multinomial draws so, too.
        waits = torch.empty_like(logp).exponential_().clamp_(min=1e-30)
        return torch.argmax(logp - waits.log_(), dim=-1)

    def to_deterministic(self) -> TorchDeterministic:
        """Return the most likely actions."""
        return TorchDeterministic(loc=torch.argmax(self._logp, dim=-1))


class _Gaussian(TorchDistribution):
    """Means and standard deviations of numbers that do not depend on each other."""

    def _get_torch_distribution(self, loc: Any, scale: Any = None) -> Any:
        return torch.distributions.Normal(loc, scale, validate_args=False)

    def kl(self, other: Any) -> Any:
        """Return the divergence from another; squashing leaves it as it is."""
        return super().kl(other).sum(-1)

    @staticmethod
    def required_input_dim(space: Any, **kwargs: Any) -> int:
        """Return two numbers for each number of an action."""
        return 2 * int(np.prod(space.shape, dtype=int))


class TorchDiagGaussian(_Gaussian):
    """Numbers that do not depend on each other, by means and logs of standard deviations."""

    def __init__(self, loc: Any, scale: Any) -> None:
        self.loc = loc
        super().__init__(loc=loc, scale=scale)

    def logp(self, value: Any, **kwargs: Any) -> Any:
        """Return the log of the likelihood."""
        return self._dist.log_prob(value).sum(-1)

    def entropy(self) -> Any:
        """Return the entropy."""
        return self._dist.entropy().sum(-1)

    @classmethod
    def from_logits(cls, logits: Any, **kwargs: Any) -> TorchDiagGaussian:
        """Make the distribution of means and logs of deviations, of shape ``(batch, 2 * n)``."""
        loc, log_std = logits.chunk(2, dim=-1)
        return cls(loc=loc, scale=log_std.exp())

    def to_deterministic(self) -> TorchDeterministic:
        """Return the means."""
        return TorchDeterministic(loc=self.loc)


class TorchSquashedGaussian(_Gaussian):
    """A diagonal Gaussian whose numbers are squashed by tanh into bounds."""

    def __init__(self, loc: Any, scale: Any, low: float = -1.0, high: float = 1.0) -> None:
        self.loc, self.low, self.high = loc, low, high
        super().__init__(loc=loc, scale=scale)

    def _squash(self, raw: Any) -> Any:
        unit = torch.tanh(raw)
        return (
            unit
            if (self.low, self.high) == (-1.0, 1.0)
            else ((unit + 1.0) / 2.0 * (self.high - self.low) + self.low)
        )

    def sample(self, *, sample_shape: Any = None, **kwargs: Any) -> Any:
        """Return random actions within the bounds."""
        return self._squash(super().sample(sample_shape=sample_shape))

    def rsample(self, *, sample_shape: Any = None, **kwargs: Any) -> Any:
        """Return random actions that gradients pass through."""
        return self._squash(super().rsample(sample_shape=sample_shape))

    def rsample_with_logp(self) -> tuple[Any, Any]:
        """Return random actions with the logs of their likelihoods, exact near the bounds."""
        raw = self._dist.rsample()
        return self._squash(raw), self._logp_of(raw)

    def _logp_of(self, raw: Any) -> Any:
        # log(1 - tanh(x)^2) without cancellation.
        shrunk = 2.0 * (math.log(2.0) - raw - torch.nn.functional.softplus(-2.0 * raw))
        scale = math.log((self.high - self.low) / 2.0)
        return (self._dist.log_prob(raw) - shrunk - scale).sum(-1)

    def logp(self, value: Any, **kwargs: Any) -> Any:
        """Return the log of the likelihood; actions at the bounds count as just within."""
        unit = (value - self.low) / (self.high - self.low) * 2.0 - 1.0
        return self._logp_of(torch.atanh(unit.clamp(-1.0 + 1e-6, 1.0 - 1e-6)))

    def entropy(self) -> Any:
        """Return an estimate by one sample."""
        return -self._logp_of(self._dist.rsample())

    @classmethod
    def from_logits(
        cls, logits: Any, low: float = -1.0, high: float = 1.0, **kwargs: Any
    ) -> TorchSquashedGaussian:
        """Make the distribution of means and logs of deviations."""
        loc, log_std = logits.chunk(2, dim=-1)
        return cls(loc=loc, scale=log_std.clamp(-20.0, 2.0).exp(), low=low, high=high)

    def to_deterministic(self) -> TorchDeterministic:
        """Return the squashed means."""
        return TorchDeterministic(loc=self._squash(self.loc))


class TorchDeterministic(Distribution):
    """The same actions each time."""

    def __init__(self, loc: Any) -> None:
        self.loc = loc

    def sample(self, *, sample_shape: Any = None, **kwargs: Any) -> Any:
        """Return the actions."""
        return self.loc

    rsample = sample

    def logp(self, value: Any, **kwargs: Any) -> Any:
        """Return zeros: there is no choice."""
        return torch.zeros(self.loc.shape[0], device=self.loc.device)

    @staticmethod
    def required_input_dim(space: Any, **kwargs: Any) -> int:
        """Return the number of numbers of an action."""
        return int(np.prod(space.shape, dtype=int))

    @classmethod
    def from_logits(cls, logits: Any, **kwargs: Any) -> TorchDeterministic:
        """Take the logits for the actions."""
        return cls(loc=logits)

    def to_deterministic(self) -> TorchDeterministic:
        """Return this one."""
        return self


class _Joined(Distribution):
    """A distribution for each part of an action: of several numbers, of a ``Dict``, of a ``Tuple``.

    Attributes:
        children: The distributions, in a list.
        join: Makes actions of the parts' actions.
        split: Makes the parts' actions of actions.
    """

    def __init__(self, children: list[Any], join: Any, split: Any) -> None:
        self.children, self.join, self.split = children, join, split

    def sample(self, *, sample_shape: Any = None, **kwargs: Any) -> Any:
        """Return random actions."""
        return self.join([child.sample(sample_shape=sample_shape) for child in self.children])

    def rsample(self, *, sample_shape: Any = None, **kwargs: Any) -> Any:
        """Return random actions that gradients pass through."""
        return self.join([child.rsample(sample_shape=sample_shape) for child in self.children])

    def logp(self, value: Any, **kwargs: Any) -> Any:
        """Return the sum of the parts' logs."""
        pairs = zip(self.children, self.split(value), strict=True)
        return sum(child.logp(part) for child, part in pairs)

    def entropy(self) -> Any:
        """Return the sum of the parts' entropies."""
        return sum(child.entropy() for child in self.children)

    def kl(self, other: Any) -> Any:
        """Return the sum of the parts' divergences."""
        return sum(a.kl(b) for a, b in zip(self.children, other.children, strict=True))

    def to_deterministic(self) -> _Joined:
        """Return each part's."""
        children = [child.to_deterministic() for child in self.children]
        return _Joined(children, self.join, self.split)


class TorchMultiDistribution(_Joined):
    """A distribution for each part of an action of a ``Dict`` or ``Tuple`` space.

    Args:
        child_distribution_struct: Distributions in a tuple, a list, or a dict, as actions have their parts.
    """

    def __init__(self, child_distribution_struct: Any) -> None:
        struct = child_distribution_struct
        struct = tuple(struct) if isinstance(struct, list) else struct
        flat = [child for _, child in leaves(struct)]

        def joined(found: list[Any]) -> Any:
            rest = iter(found)
            return mapped(lambda _: next(rest), struct)

        def split(value: Any) -> list[Any]:
            found: list[Any] = []
            mapped(lambda _, part: found.append(part), struct, _as(struct, value))
            return found

        super().__init__(flat, joined, split)

    @classmethod
    def from_logits(
        cls,
        logits: Any,
        child_distribution_cls_struct: Any = None,
        input_lens: Any = None,
        **kwargs: Any,
    ) -> TorchMultiDistribution:
        """Make the distributions of parts of the logits.

        Args:
            logits: Of shape ``(batch, sum(input_lens))``.
            child_distribution_cls_struct: Classes of distributions, in a tuple, a list or a dict.
            input_lens: How many of the logits each takes, likewise, or in a list in their order.
            **kwargs: More, in later releases.
        """
        kinds = child_distribution_cls_struct
        kinds = tuple(kinds) if isinstance(kinds, list) else kinds
        lengths = input_lens
        if isinstance(lengths, (dict, tuple)):
            lengths = [length for _, length in leaves(lengths)]
        parts_of = iter(logits.split([int(length) for length in lengths], dim=-1))
        return cls(mapped(lambda kind: kind.from_logits(next(parts_of)), kinds))


def _as(struct: Any, value: Any) -> Any:
    # Actions of a Tuple space may come in a list.
    return tuple(value) if isinstance(struct, tuple) and isinstance(value, list) else value


class _Flags(TorchDistribution):
    """Zeros and ones, by a logit each."""

    def __init__(self, logits: Any) -> None:
        super().__init__(logits=logits)

    def _get_torch_distribution(self, logits: Any = None) -> Any:
        return torch.distributions.Bernoulli(logits=logits, validate_args=False)

    def logp(self, value: Any, **kwargs: Any) -> Any:
        return self._dist.log_prob(value.float()).sum(-1)

    def entropy(self) -> Any:
        return self._dist.entropy().sum(-1)

    def kl(self, other: Any) -> Any:
        return super().kl(other).sum(-1)

    @classmethod
    def from_logits(cls, logits: Any, **kwargs: Any) -> _Flags:
        return cls(logits=logits)

    def to_deterministic(self) -> TorchDeterministic:
        return TorchDeterministic(loc=(self._dist.logits > 0).float())


class TorchMultiCategorical(_Joined):
    """Several choices, each by logits of its own."""

    def __init__(self, categoricals: list[Any]) -> None:
        super().__init__(
            categoricals, lambda found: torch.stack(found, dim=-1), lambda value: value.unbind(-1)
        )

    @staticmethod
    def required_input_dim(space: Any, **kwargs: Any) -> int:
        """Return the number of logits of all choices."""
        return int(np.sum(space.nvec))

    @classmethod
    def from_logits(
        cls, logits: Any, input_lens: Any = None, **kwargs: Any
    ) -> TorchMultiCategorical:
        """Make the distribution of logits of shape ``(batch, sum(input_lens))``."""
        lengths = [int(length) for length in input_lens]
        return cls([TorchCategorical.from_logits(part) for part in logits.split(lengths, dim=-1)])


class _OfSpace:
    """The distribution over a space, in the place of a class: ``from_logits`` and the number of inputs."""

    def __init__(self, space: Any, squash: bool) -> None:
        self.space, self.squash = space, squash

    def __reduce__(self) -> Any:
        return _OfSpace, (self.space, self.squash)

    def required_input_dim(self, space: Any = None, **kwargs: Any) -> int:
        return inputs(self.space)

    def from_logits(self, logits: Any, **kwargs: Any) -> Any:
        return _made(self.space, logits, self.squash)

    from_inputs = from_logits


def for_space(space: Any, squash: bool = False) -> Any:
    """Return the maker of distributions over a space of a module's outputs.

    Args:
        space: The space of actions.
        squash: Whether numbers are squashed into ``[-1, 1]``.
    """
    return _OfSpace(space, squash)


def inputs(space: Any) -> int:
    """The number of a module's outputs that a distribution over a space takes."""
    from gymnasium import spaces

    nest = parts(space)
    if isinstance(nest, dict):
        return sum(inputs(part) for part in space.spaces.values())
    if isinstance(nest, tuple):
        return sum(inputs(part) for part in space.spaces)
    if isinstance(space, spaces.Discrete):
        return int(space.n)
    if isinstance(space, spaces.MultiDiscrete):
        return int(np.sum(space.nvec))
    if isinstance(space, spaces.MultiBinary):
        return int(np.prod(space.shape, dtype=int))
    if isinstance(space, spaces.Box):
        return 2 * int(np.prod(space.shape, dtype=int))
    raise ValueError(
        f"Actions of the space {space} have no distribution here: use Box, Discrete, MultiDiscrete, "
        "MultiBinary, Dict or Tuple spaces, or set action_dist_cls in your RLModule's setup()."
    )


def _made(space: Any, logits: Any, squash: bool) -> Any:
    from gymnasium import spaces

    if isinstance(space, spaces.Dict | spaces.Tuple):
        return _of_parts(space, logits, squash)
    if isinstance(space, spaces.Discrete):
        start = int(space.start)
        if not start:
            return TorchCategorical.from_logits(logits)
        one = TorchCategorical.from_logits(logits)
        return _Joined([one], lambda v: v[0] + start, lambda v: [v - start])
    if isinstance(space, spaces.MultiDiscrete):
        made = TorchMultiCategorical.from_logits(logits, input_lens=space.nvec.reshape(-1))
        if len(space.shape) == 1:
            return made
        shape = space.shape
        return _Joined(
            made.children,
            lambda found: torch.stack(found, dim=-1).reshape(-1, *shape),
            lambda value: value.reshape(value.shape[0], -1).unbind(-1),
        )
    shape = tuple(space.shape)
    child: Any = (
        _Flags.from_logits(logits)
        if isinstance(space, spaces.MultiBinary)
        else (TorchSquashedGaussian if squash else TorchDiagGaussian).from_logits(logits)
    )
    if len(shape) == 1:
        return child
    return _Joined(
        [child],
        lambda found: found[0].reshape(*found[0].shape[:-1], *shape),
        lambda value: [value.reshape(value.shape[0], -1)],
    )


def _of_parts(space: Any, logits: Any, squash: bool) -> Any:
    from gymnasium import spaces

    named = list(space.spaces.items()) if isinstance(space, spaces.Dict) else None
    children = [part for _, part in named] if named is not None else list(space.spaces)
    sizes = [inputs(part) for part in children]
    made = [
        _made(part, own, squash)
        for part, own in zip(children, logits.split(sizes, dim=-1), strict=True)
    ]
    if named is None:
        return _Joined(made, tuple, list)
    names = [name for name, _ in named]
    return _Joined(
        made,
        lambda found: dict(zip(names, found, strict=True)),
        lambda value: [value[name] for name in names],
    )
