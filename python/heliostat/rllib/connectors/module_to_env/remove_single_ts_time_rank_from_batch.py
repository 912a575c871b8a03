"""Items without the axis of time."""

from __future__ import annotations

from typing import Any

import numpy as np

from heliostat.rllib.connectors.connector_v2 import ConnectorV2
from heliostat.rllib.core.columns import Columns
from heliostat.rllib.utils.nest import mapped


class RemoveSingleTsTimeRankFromBatch(ConnectorV2):
    """Takes off the axis of time that ``AddTimeDimToBatchAndZeroPad`` added for one step.

    Examples:
        >>> from ray.rllib.connectors.module_to_env import RemoveSingleTsTimeRankFromBatch
        >>> connector = RemoveSingleTsTimeRankFromBatch()
        >>> connector(rl_module=None, batch={"actions": [1]}, shared_data={})  # no axis was added
        {'actions': [1]}
    """

    def __call__(
        self, *, rl_module: Any, batch: Any, shared_data: Any = None, **kwargs: Any
    ) -> Any:
        """Return the batch without the axis of time."""
        if not (shared_data or {}).get("_added_single_ts_time_rank"):
            return batch

        def one(item: Any, episode: Any, agent: Any, module_id: Any) -> Any:
            if module_id is not None and not rl_module[module_id].is_stateful():
                return item
            return mapped(lambda leaf: np.squeeze(leaf, axis=0), item)

        for column in batch:
            if column != Columns.STATE_OUT:
                self.foreach_batch_item_change_in_place(batch, column, one)
        return batch
