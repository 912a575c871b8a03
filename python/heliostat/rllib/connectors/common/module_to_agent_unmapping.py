"""From modules to the agents that they act for."""

from __future__ import annotations

from typing import Any

from heliostat.rllib.connectors.connector_v2 import ConnectorV2


class ModuleToAgentUnmapping(ConnectorV2):
    """Turns a batch of columns by module id into one of columns by episode, agent and module.

    Examples:
        >>> from ray.rllib.connectors.module_to_env import ModuleToAgentUnmapping
        >>> batch = {
        ...     "left": {"actions": {("a", 0, "left"): [1]}},
        ...     "right": {"actions": {("a", 1, "right"): [0]}},
        ... }
        >>> ModuleToAgentUnmapping()(batch=batch)
        {'actions': {('a', 0, 'left'): [1], ('a', 1, 'right'): [0]}}
    """

    def __call__(self, *, batch: Any, **kwargs: Any) -> Any:
        """Return the batch by column."""
        found: dict[str, dict[Any, Any]] = {}
        for columns in batch.values():
            for column, by_agent in columns.items():
                found.setdefault(column, {}).update(by_agent)
        return found
