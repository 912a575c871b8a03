"""Modules that bring their own loss."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any


class SelfSupervisedLossAPI(ABC):
    """The method of a module whose loss takes the place of the learner's.

    Examples:
        >>> import torch
        >>> from ray.rllib.core import Columns
        >>> from ray.rllib.core.rl_module.apis import SelfSupervisedLossAPI
        >>> class Guesses(SelfSupervisedLossAPI):  # beside TorchRLModule
        ...     def compute_self_supervised_loss(
        ...         self, *, learner, module_id, config, batch, fwd_out, **kwargs
        ...     ):
        ...         return (fwd_out["guess"] - batch[Columns.NEXT_OBS]).square().mean()
        >>> batch, guess = {Columns.NEXT_OBS: torch.ones(2, 4)}, {"guess": torch.zeros(2, 4)}
        >>> Guesses().compute_self_supervised_loss(
        ...     learner=None, module_id="guesses", config=None, batch=batch, fwd_out=guess
        ... )
        tensor(1.)
    """

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
