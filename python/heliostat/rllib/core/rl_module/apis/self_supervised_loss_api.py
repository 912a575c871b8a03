"""Modules that bring their own loss."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any


class SelfSupervisedLossAPI(ABC):
    """The method of a module whose loss takes the place of the learner's."""

    @abstractmethod
    def compute_self_supervised_loss(
        self,
        *,
        learner: Any,
        module_id: str,
        config: Any,
        batch: dict[str, Any],
        fwd_out: dict[str, Any],
        **kwargs: Any,
    ) -> Any:
        """Return the loss, a tensor of one number.

        Args:
            learner: The learner that asks; its ``metrics`` take what is logged.
            module_id: The module's id.
            config: Its settings.
            batch: Its columns, tensors of shape ``(batch, ...)``.
            fwd_out: What its ``forward_train`` returned.
            **kwargs: More, in later releases.
        """
