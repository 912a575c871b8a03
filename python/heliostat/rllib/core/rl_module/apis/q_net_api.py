"""Modules that give values of actions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any


class QNetAPI(ABC):
    """The methods of a module whose algorithm needs values of actions: DQN.

    Examples:
        >>> import torch
        >>> from ray.rllib.core import Columns
        >>> from ray.rllib.core.rl_module.apis import QNetAPI
        >>> class Zeros(QNetAPI):  # beside TorchRLModule
        ...     def compute_q_values(self, batch):
        ...         return {"qf_preds": torch.zeros(len(batch[Columns.OBS]), 2)}
        >>> Zeros().compute_q_values({Columns.OBS: torch.ones(1, 4)})["qf_preds"]
        tensor([[0., 0.]])
    """

    @abstractmethod
    def compute_q_values(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Return the values of all actions: ``qf_preds``, of shape ``(batch, actions)``.

        Args:
            batch: The batch, of which ``Columns.OBS`` is read.
        """

    def compute_advantage_distribution(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Return the same before the mean of dueling heads is subtracted. Default: :meth:`compute_q_values`.

        Args:
            batch: The batch, of which ``Columns.OBS`` is read.
        """
        return self.compute_q_values(batch)
