"""The base of distributions of actions."""

from __future__ import annotations

from typing import Any


class Distribution:
    """The distribution of actions that a module's outputs mean."""

    def sample(self, *, sample_shape: Any = None, **kwargs: Any) -> Any:
        """Return random actions, without a gradient."""
        raise NotImplementedError

    def rsample(self, *, sample_shape: Any = None, **kwargs: Any) -> Any:
        """Return random actions that gradients pass through."""
        raise NotImplementedError

    def sample_and_logp(self, *, sample_shape: Any = None, **kwargs: Any) -> tuple[Any, Any]:
        """Return random actions without a gradient, and their logs of likelihood."""
        found = self.sample(sample_shape=sample_shape, **kwargs)
        return found, self.logp(found)

    def rsample_and_logp(self, *, sample_shape: Any = None, **kwargs: Any) -> tuple[Any, Any]:
        """Return random actions that gradients pass through, and their logs of likelihood."""
        found = self.rsample(sample_shape=sample_shape, **kwargs)
        return found, self.logp(found)

    def logp(self, value: Any, **kwargs: Any) -> Any:
        """Return the log of the likelihood of actions, of shape ``(batch,)``."""
        raise NotImplementedError

    def kl(self, other: Any) -> Any:
        """Return the divergence from another distribution of the kind."""
        raise NotImplementedError

    def entropy(self) -> Any:
        """Return the entropy."""
        raise NotImplementedError

    @staticmethod
    def required_input_dim(space: Any, **kwargs: Any) -> int:
        """Return how many outputs of a module it takes."""
        raise NotImplementedError

    @classmethod
    def from_logits(cls, logits: Any, **kwargs: Any) -> Any:
        """Make the distribution of a module's outputs."""
        raise NotImplementedError

    @classmethod
    def get_partial_dist_cls(cls, **partial_kwargs: Any) -> Any:
        """Return a class whose ``from_logits`` has the arguments already."""

        class Partial(cls):  # type: ignore[valid-type,misc] # a base at run time
            @classmethod
            def from_logits(inner, logits: Any, **kwargs: Any) -> Any:
                return super().from_logits(logits, **{**partial_kwargs, **kwargs})

        return Partial

    def to_deterministic(self) -> Any:
        """Return the distribution of the most likely actions alone."""
        raise NotImplementedError
