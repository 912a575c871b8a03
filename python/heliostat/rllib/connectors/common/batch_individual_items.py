"""From lists of items to batches."""

from __future__ import annotations

from typing import Any

from heliostat.rllib.connectors.connector_v2 import ConnectorV2
from heliostat.rllib.core import DEFAULT_MODULE_ID
from heliostat.rllib.core.columns import Columns
from heliostat.rllib.utils.nest import first
from heliostat.rllib.utils.spaces.space_utils import BatchedNdArray
from heliostat.rllib.utils.spaces.space_utils import batch as batched


class BatchIndividualItems(ConnectorV2):
    """Makes one array of each column, ``infos`` without.

    Args:
        input_observation_space: The space of observations that it gets. Default: the pipeline sets it.
        input_action_space: The space of actions that it gets. Default: the pipeline sets it.
        multi_agent: Whether the batch is by module id. Default False.
        **kwargs: Has no effect.

    Examples:
        >>> from ray.rllib.connectors.env_to_module import BatchIndividualItems
        >>> connector = BatchIndividualItems()
        >>> batch = {"obs": {("a",): [0.0, 1.0], ("b",): [2.0]}}
        >>> connector(batch=batch, rl_module=None)["obs"].tolist()
        [0.0, 1.0, 2.0]
    """

    def __init__(
        self,
        input_observation_space: Any = None,
        input_action_space: Any = None,
        *,
        multi_agent: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(input_observation_space, input_action_space, **kwargs)
        self._multi_agent = multi_agent

    def __call__(
        self, *, rl_module: Any, batch: Any, shared_data: Any = None, **kwargs: Any
    ) -> Any:
        """Return the batch of arrays."""
        by_module = hasattr(rl_module, "foreach_module")
        for column, data in list(batch.items()):
            if by_module and column in rl_module:
                for name, items in data.items() if self._multi_agent else ():
                    if isinstance(items, list) and name != Columns.INFOS:
                        data[name] = _joined(items)
                continue
            items = data
            if isinstance(data, dict) and not self._multi_agent:
                items = [item for own in data.values() for item in own]
                if column == Columns.OBS and shared_data is not None:
                    shared_data["memorized_map_structure"] = [
                        key[0]
                        for key, own in data.items()
                        for item in own
                        for _ in range(_rows(item))
                    ]
            if not isinstance(items, list):
                continue
            made = items if column == Columns.INFOS else _joined(items)
            if by_module and not self._multi_agent:
                batch.pop(column)
                batch.setdefault(DEFAULT_MODULE_ID, {})[column] = made
            else:
                batch[column] = made
        return batch


def _joined(items: list[Any]) -> Any:
    return batched(items, individual_items_already_have_batch_dim="auto")


def _rows(item: Any) -> int:
    leaf = first(item)
    return len(leaf) if isinstance(leaf, BatchedNdArray) else 1
