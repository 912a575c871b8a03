"""From arrays to tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from heliostat.core.platform.extras import required
from heliostat.rllib.connectors.connector_v2 import ConnectorV2
from heliostat.rllib.core.columns import Columns
from heliostat.rllib.utils.nest import mapped

torch = required("torch", "ray.rllib", "rllib")


class NumpyToTensor(ConnectorV2):
    """Makes tensors of arrays, of float64 those of float32; ``infos`` stay as they are.

    Args:
        input_observation_space: The space of observations that it gets. Default: the pipeline sets it.
        input_action_space: The space of actions that it gets. Default: the pipeline sets it.
        pin_memory: Whether tensors are in memory that a GPU copies from sooner. Default False.
        device: Where they go. Default: the CPU.
        **kwargs: Has no effect.

    Examples:
        >>> import numpy as np
        >>> from ray.rllib.connectors.env_to_module import NumpyToTensor
        >>> NumpyToTensor()(rl_module=None, batch={"obs": np.array([0.5, 1.0])})["obs"]
        tensor([0.5000, 1.0000])
    """

    def __init__(
        self,
        input_observation_space: Any = None,
        input_action_space: Any = None,
        *,
        pin_memory: bool = False,
        device: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(input_observation_space, input_action_space, **kwargs)
        self._pin_memory, self._device = pin_memory, device

    def __call__(self, *, rl_module: Any, batch: Any, **kwargs: Any) -> Any:
        """Return the batch of tensors."""
        if hasattr(rl_module, "foreach_module") and all(name in rl_module for name in batch):
            return {name: self._tensors(columns) for name, columns in batch.items()}
        return self._tensors(batch)

    def _tensors(self, columns: dict[str, Any]) -> dict[str, Any]:
        return {
            name: data if name == Columns.INFOS else mapped(self._tensor, data)
            for name, data in columns.items()
        }

    def _tensor(self, leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            array = np.asarray(leaf)
            if array.dtype == object or array.dtype.kind in "US":
                return leaf
            if array.dtype == np.float64:
                array = array.astype(np.float32)
            if not array.flags.writeable or not array.flags.c_contiguous:
                array = array.copy()
            leaf = torch.from_numpy(np.asarray(array))
        if self._pin_memory and torch.cuda.is_available():
            leaf = leaf.pin_memory()
        return leaf if self._device is None else leaf.to(self._device)
