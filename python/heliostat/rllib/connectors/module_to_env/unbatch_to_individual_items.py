"""From batches to lists of items."""

from __future__ import annotations

from typing import Any

from heliostat.rllib.connectors.connector_v2 import ConnectorV2
from heliostat.rllib.utils.spaces.space_utils import unbatch


class UnBatchToIndividualItems(ConnectorV2):
    """Makes lists of items by episode of each column, as they were before ``BatchIndividualItems``.

    Examples:
        >>> import numpy as np
        >>> from ray.rllib.connectors.module_to_env import UnBatchToIndividualItems
        >>> rows = {"memorized_map_structure": ["a", "b"]}  # as BatchIndividualItems has left it
        >>> found = UnBatchToIndividualItems()(batch={"actions": np.array([1, 0])}, shared_data=rows)
        >>> {key: int(items[0]) for key, items in found["actions"].items()}
        {('a',): 1, ('b',): 0}
    """

    def __call__(self, *, batch: Any, shared_data: Any = None, **kwargs: Any) -> Any:
        """Return the batch of lists.

        Raises:
            KeyError: A module gave something that was not asked for anything.
        """
        rows = (shared_data or {}).get("memorized_map_structure")
        if rows is None:
            return {column: unbatch(data) for column, data in batch.items()}
        if isinstance(rows, list):
            return {
                column: _by_key(unbatch(data), [(episode,) for episode in rows])
                for column, data in batch.items()
            }
        found: dict[str, Any] = {}
        for module_id, columns in batch.items():
            if module_id not in rows:
                raise KeyError(
                    f"Module {module_id!r} gave actions, and no agent asked it: it is asked for "
                    f"{', '.join(map(repr, rows))} of this step."
                )
            keys = [(episode, agent, module_id) for episode, agent in rows[module_id]]
            found[module_id] = {c: _by_key(unbatch(data), keys) for c, data in columns.items()}
        return found


def _by_key(items: list[Any], keys: list[Any]) -> dict[Any, list[Any]]:
    found: dict[Any, list[Any]] = {}
    for key, item in zip(keys, items, strict=True):
        found.setdefault(key, []).append(item)
    return found
