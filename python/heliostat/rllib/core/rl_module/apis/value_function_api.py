"""Modules with a value function."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any


class ValueFunctionAPI:
    """The methods of a module whose algorithm needs values: PPO, IMPALA, APPO, MARWIL.

    Examples:
        >>> import torch
        >>> from ray.rllib.core import Columns
        >>> from ray.rllib.core.rl_module.apis import ValueFunctionAPI
        >>> class Worth(ValueFunctionAPI):
        ...     def compute_values(self, batch, embeddings=None):
        ...         return batch[Columns.OBS].sum(dim=-1)
        >>> Worth().compute_values({Columns.OBS: torch.ones(1, 3)})
        tensor([3.])
    """

    @abstractmethod
    def compute_values(self, batch: dict[str, Any], embeddings: Any = None) -> Any:
        """Return the values of the batch's observations, of shape ``(batch,)``.

        Args:
            batch: Tensors by column, of shape ``(batch, ...)``.
            embeddings: What ``forward_train`` returned as ``Columns.EMBEDDINGS``. Default: it is computed.

        Raises:
            NotImplementedError: The module has none.
        """
        raise NotImplementedError
