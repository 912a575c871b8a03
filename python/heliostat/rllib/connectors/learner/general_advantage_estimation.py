"""Advantages and targets of values."""

from __future__ import annotations

from typing import Any

import numpy as np

from heliostat.core.platform.extras import required
from heliostat.rllib.connectors.connector_v2 import ConnectorV2
from heliostat.rllib.core.columns import Columns
from heliostat.util.returns import advantages

torch = required("torch", "ray.rllib", "rllib")


class GeneralAdvantageEstimation(ConnectorV2):
    """Adds the columns ``advantages`` (of mean 0 and deviation 1 over the steps that count) and
    ``value_targets`` for modules that have values. It needs ``AddOneTsToEpisodesAndTruncate`` before it, and
    a batch of tensors.

    Args:
        input_observation_space: The space of observations that it gets. Default: the pipeline sets it.
        input_action_space: The space of actions that it gets. Default: the pipeline sets it.
        gamma: What a reward one step later counts.
        lambda_: How far advantages look beyond the next value: 0 to 1.

    Examples:
        >>> from ray.rllib.algorithms.ppo import PPOConfig
        >>> from ray.rllib.connectors.learner import (
        ...     AddOneTsToEpisodesAndTruncate,
        ...     GeneralAdvantageEstimation,
        ... )
        >>> config = PPOConfig().training(lambda_=0.95, gamma=0.99)  # has PPO's learners contain both
        >>> pipeline = [
        ...     AddOneTsToEpisodesAndTruncate(),
        ...     GeneralAdvantageEstimation(gamma=0.99, lambda_=0.95),
        ... ]
    """

    def __init__(
        self,
        input_observation_space: Any = None,
        input_action_space: Any = None,
        *,
        gamma: float,
        lambda_: float,
    ) -> None:
        super().__init__(input_observation_space, input_action_space)
        self.gamma, self.lambda_ = gamma, lambda_

    def __call__(self, *, rl_module: Any, batch: Any, **kwargs: Any) -> Any:
        """Return the batch with advantages and targets."""
        for module_id, columns in batch.items():
            module = rl_module[module_id]
            if not hasattr(module, "compute_values"):
                continue
            with torch.no_grad():
                values = module.compute_values(columns)
            steps = Steps(columns)
            own = steps.flat(values)
            found = np.zeros_like(own)
            found[steps.real] = advantages(
                steps.flat(columns[Columns.REWARDS])[steps.real][:, None].astype(np.float32),
                own[steps.real][:, None],
                steps.following(own)[:, None],
                steps.ends[:, None],
                self.gamma,
                self.lambda_,
            )[:, 0]
            targets = found + own
            counted = found[steps.real]
            found[steps.real] = (counted - counted.mean()) / max(1e-4, counted.std())
            columns[Columns.ADVANTAGES] = steps.back(found)
            columns[Columns.VALUE_TARGETS] = steps.back(targets)
        return batch


class Steps:
    """The rows of a batch as steps one after the other, padding left out: each episode's steps, and the one
    that ``AddOneTsToEpisodesAndTruncate`` added.

    Args:
        columns: Tensors by column, with ``loss_mask``, of shape ``(steps, ...)`` or ``(sequences, time,
            ...)``.

    Attributes:
        real: The places of the steps that were sampled.
        ends: Of them, which are an episode's last one.
    """

    def __init__(self, columns: dict[str, Any]) -> None:
        mask = columns[Columns.LOSS_MASK]
        self.shape, self.device = tuple(mask.shape), mask.device
        self.kept: Any = None
        lengths = columns.get(Columns.SEQ_LENS)
        if lengths is not None:
            time = np.arange(self.shape[1])
            self.kept = (time < lengths.cpu().numpy()[:, None]).reshape(-1)
        counts = self.flat(mask)
        self.real = np.flatnonzero(counts)
        self.ends = ~counts[self.real + 1]
        self._terminated = self.flat(columns[Columns.TERMINATEDS])[self.real]

    def flat(self, tensor: Any) -> Any:
        """A column of numbers as one array of the steps."""
        found = tensor.detach().cpu().numpy().reshape(-1)
        return found if self.kept is None else found[self.kept]

    def following(self, values: Any) -> Any:
        """The value of what each sampled step led to: 0 where that was the end."""
        return np.where(self._terminated, 0.0, values[self.real + 1]).astype(np.float32)

    def back(self, values: Any) -> Any:
        """An array of the steps as a tensor of the column's shape; padding is 0."""
        whole = values
        if self.kept is not None:
            whole = np.zeros(len(self.kept), values.dtype)
            whole[self.kept] = values
        return torch.from_numpy(whole.astype(np.float32).reshape(self.shape)).to(self.device)
