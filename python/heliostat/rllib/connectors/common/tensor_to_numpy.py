"""From tensors to arrays."""

from __future__ import annotations

from typing import Any

from heliostat.rllib.connectors.connector_v2 import ConnectorV2
from heliostat.rllib.utils.numpy import convert_to_numpy


class TensorToNumpy(ConnectorV2):
    """Makes arrays of tensors.

    Examples:
        >>> import torch
        >>> from ray.rllib.connectors.module_to_env import TensorToNumpy
        >>> TensorToNumpy()(batch={"actions": torch.tensor([1, 0])})["actions"].tolist()
        [1, 0]
    """

    def __call__(self, *, batch: Any, **kwargs: Any) -> Any:
        """Return the batch of arrays."""
        return convert_to_numpy(batch, reduce_type=False)
