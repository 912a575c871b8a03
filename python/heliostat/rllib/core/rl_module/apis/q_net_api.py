"""Modules that give values of actions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any


class QNetAPI(ABC):
    """The methods of a module whose algorithm needs values of actions: DQN."""

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
