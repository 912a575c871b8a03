"""Actions of small policies, by few operations of numpy.

A step of small environments takes less time than torch takes to call a module of some layers: here the same
numbers come of the same weights without a module, a tensor, or a distribution.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from heliostat.core.platform.extras import required
from heliostat.rllib.core.columns import Columns

torch = required("torch", "ray.rllib", "rllib")
nn = torch.nn

# Multiplications of a layer, for all rows, above which torch is the faster one.
SMALL = 250_000


def _relu(values: Any) -> Any:
    return np.maximum(values, 0.0, out=values)


def _tanh(values: Any) -> Any:
    return np.tanh(values, out=values)


_ACTIVATIONS: dict[type, Any] = {nn.Tanh: _tanh, nn.ReLU: _relu, nn.Identity: None}


def chain(layers: Any, rows: int) -> list[Any] | None:
    """Return linear layers, as pairs of weights and biases, and the functions between them.

    Args:
        layers: Layers of torch, in their order.
        rows: How many observations go through them at once.

    Returns:
        None where a layer is of another kind, is large, or somebody listens to it.
    """
    found: list[Any] = []
    for layer in layers:
        if layer._forward_hooks or layer._forward_pre_hooks:
            return None
        if type(layer) is nn.Linear:
            weight = layer.weight
            if weight.dtype != torch.float32 or weight.is_cuda or rows * weight.numel() > SMALL:
                return None
            bias = None if layer.bias is None else layer.bias.detach().numpy()
            found.append((weight.detach().numpy().T, bias))
        elif type(layer) in _ACTIVATIONS:
            found.append(_ACTIVATIONS[type(layer)])
        else:
            return None
    return [part for part in found if part is not None]


def through(parts: list[Any], values: Any) -> Any:
    """Return what comes out of a chain.

    Args:
        parts: The chain, of at least one linear layer.
        values: Rows of float32; they stay as they are.
    """
    for part in parts:
        if isinstance(part, tuple):
            values = values @ part[0]
            if part[1] is not None:
                values += part[1]
        else:
            values = part(values)
    return values


class SmallPolicy:
    """A policy of one chain of layers, with the weights that the module has now.

    Args:
        parts: The chain.
        choose: Draws actions of the chain's outputs.
    """

    def __init__(self, parts: list[Any], choose: Callable[[Any, bool], dict[str, Any]]) -> None:
        self._parts, self._choose = parts, choose

    def act(self, observations: Any, explore: bool) -> dict[str, Any]:
        """Return actions for rows of observations, and the columns that explain them.

        Args:
            observations: Of shape ``(rows, ...)``.
            explore: Whether actions are drawn; the most likely ones otherwise.
        """
        rows = len(observations)
        flat = observations.reshape(rows, -1).astype(np.float32, copy=False)
        return self._choose(through(self._parts, flat), explore)


def random_numbers() -> Any:
    """Return a generator of numpy's that is seeded by torch's, so that one seed determines both."""
    return np.random.Generator(np.random.SFC64(int(torch.randint(2**62, ()))))


class OneOf:
    """Draws one of a number of actions by their logits.

    Args:
        start: The number of the first action.
        generator: Draws numbers.
        rows: How many actions are drawn at once.
    """

    def __init__(self, start: int, generator: Any, rows: int) -> None:
        self._start, self._random = start, generator.random
        self._rows = np.arange(rows)

    def __call__(self, logits: Any, explore: bool) -> dict[str, Any]:
        """Return the actions, the logits, and the logs of likelihoods where actions are drawn."""
        found = {Columns.ACTION_DIST_INPUTS: logits}
        if not explore:
            found[Columns.ACTIONS] = logits.argmax(-1) + self._start
            return found
        shifted = logits - logits.max(-1, keepdims=True)
        sums = np.exp(shifted).cumsum(-1)
        total = sums[:, -1]
        # Below the sum of all: what cannot happen is not drawn, not even by rounding.
        drawn = self._random(len(logits), dtype=np.float32) * total
        drawn = np.minimum(drawn, np.nextafter(total, np.float32(0.0)))
        actions = (sums <= drawn[:, None]).sum(-1)
        found[Columns.ACTIONS] = actions + self._start
        found[Columns.ACTION_LOGP] = shifted[self._rows, actions] - np.log(total)
        return found


class Near:
    """Draws numbers by their means and the logs of their deviations.

    Args:
        generator: Draws numbers.
        bound: Of the logs, from both sides.
        log_std: The logs, where they do not depend on observations.
    """

    def __init__(self, generator: Any, bound: float, log_std: Any = None) -> None:
        self._normal, self._bound, self._log_std = generator.standard_normal, bound, log_std

    def __call__(self, outputs: Any, explore: bool) -> dict[str, Any]:
        """Return the actions, means and logs, and the logs of likelihoods where actions are drawn."""
        if self._log_std is None:
            mean, log_std = outputs[:, : outputs.shape[1] // 2], outputs[:, outputs.shape[1] // 2 :]
        else:
            mean, log_std = outputs, np.broadcast_to(self._log_std, outputs.shape)
        log_std = np.clip(log_std, -self._bound, self._bound)
        found = {Columns.ACTION_DIST_INPUTS: np.concatenate([mean, log_std], axis=1)}
        if not explore:
            found[Columns.ACTIONS] = mean
            return found
        deviations = np.exp(log_std)
        actions = mean + deviations * self._normal(mean.shape, dtype=np.float32)
        found[Columns.ACTIONS] = actions
        noise = (actions - mean) / deviations  # as the learner finds it, of the rounded action
        each = -0.5 * noise * noise - log_std
        found[Columns.ACTION_LOGP] = each.sum(1) - np.float32(
            0.5 * math.log(2 * math.pi) * mean.shape[1]
        )
        return found
