"""Connectors one after the other."""

from __future__ import annotations

import logging
import re
import time
from typing import Any

from heliostat.rllib.connectors.connector_v2 import ConnectorV2
from heliostat.rllib.utils.checkpoints import chosen

__all__ = ["ConnectorPipelineV2"]

_log = logging.getLogger("ray.rllib")


class ConnectorPipelineV2(ConnectorV2):
    """Connectors, each of which gets the batch that the one before it returned.

    Args:
        input_observation_space: The space of observations that the first one gets.
        input_action_space: The space of actions that the first one gets.
        connectors: The connectors. Default: none.
        **kwargs: Has no effect.

    Examples:
        >>> from ray.rllib.connectors.connector_pipeline_v2 import ConnectorPipelineV2
        >>> from ray.rllib.connectors.env_to_module import FlattenObservations, MeanStdFilter
        >>> pipeline = ConnectorPipelineV2(connectors=[FlattenObservations()])
        >>> pipeline.append(MeanStdFilter())
        >>> len(pipeline)
        2
    """

    def __init__(
        self,
        input_observation_space: Any = None,
        input_action_space: Any = None,
        *,
        connectors: Any = None,
        **kwargs: Any,
    ) -> None:
        self.connectors: list[ConnectorV2] = []
        for one in connectors or []:
            # From a checkpoint: the class with its arguments.
            made = one[0](*one[1], **one[2]) if isinstance(one, tuple) else one
            self.connectors.append(_checked(made))
        super().__init__(input_observation_space, input_action_space, **kwargs)

    def __len__(self) -> int:
        return len(self.connectors)

    def __call__(
        self,
        *,
        rl_module: Any,
        batch: dict[str, Any] | None = None,
        episodes: list[Any],
        explore: bool | None = None,
        shared_data: dict[str, Any] | None = None,
        metrics: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Return the batch that the last connector returns.

        Raises:
            ValueError: A connector returned something else than a batch.
        """
        batch = {} if batch is None else batch
        shared_data = {} if shared_data is None else shared_data
        where = tuple(kwargs.get("metrics_prefix_key", ()))
        began = then = time.perf_counter()
        for connector in self.connectors:
            found = connector(
                rl_module=rl_module,
                batch=batch,
                episodes=episodes,
                explore=explore,
                shared_data=shared_data,
                metrics=metrics,
                data=batch,
                **kwargs,
            )
            if not isinstance(found, dict):
                raise ValueError(
                    f"{type(connector).__name__}.__call__() returned {found!r}: a connector returns the "
                    "batch that it got, changed or not."
                )
            batch = found
            if metrics is not None:
                now = time.perf_counter()
                metrics.log_value((*where, "timers", "connectors", _name(connector)), now - then)
                then = now
        if metrics is not None:
            metrics.log_value((*where, "connector_pipeline_timer"), time.perf_counter() - began)
        return batch

    # --- changes ---

    def _place(self, name_or_class: str | type) -> int:
        for place, connector in enumerate(self.connectors):
            if type(connector) is name_or_class or type(connector).__name__ == name_or_class:
                return place
        return -1

    def _found(self, name_or_class: str | type) -> int:
        place = self._place(name_or_class)
        if place < 0:
            name = getattr(name_or_class, "__name__", name_or_class)
            have = ", ".join(type(connector).__name__ for connector in self.connectors)
            raise ValueError(f"The pipeline has no connector {name!r}: it has {have or 'none'}.")
        return place

    def remove(self, name_or_class: str | type) -> None:
        """Remove a connector; a warning says where there is no such one.

        Args:
            name_or_class: The connector's class, or the class's name.
        """
        place = self._place(name_or_class)
        if place < 0:
            _log.warning("The pipeline has no connector %s to remove.", name_or_class)
            return
        del self.connectors[place]
        self._fix_spaces(self.input_observation_space, self.input_action_space)

    def insert_before(self, name_or_class: str | type, connector: ConnectorV2) -> ConnectorV2:
        """Insert a connector before another one.

        Args:
            name_or_class: The other connector's class, or the class's name.
            connector: The connector.

        Returns:
            The other one.

        Raises:
            ValueError: The pipeline has no such other one.
        """
        return self._insert_beside(name_or_class, connector, 0)

    def insert_after(self, name_or_class: str | type, connector: ConnectorV2) -> ConnectorV2:
        """Insert a connector after another one.

        Args:
            name_or_class: The other connector's class, or the class's name.
            connector: The connector.

        Returns:
            The other one.

        Raises:
            ValueError: The pipeline has no such other one.
        """
        return self._insert_beside(name_or_class, connector, 1)

    def _insert_beside(
        self, name_or_class: str | type, connector: ConnectorV2, offset: int
    ) -> ConnectorV2:
        place = self._found(name_or_class)
        other = self.connectors[place]
        self._insert(place + offset, connector)
        return other

    def prepend(self, connector: ConnectorV2) -> None:
        """Add a connector in front of all others.

        Args:
            connector: The connector.
        """
        self._insert(0, connector)

    def append(self, connector: ConnectorV2) -> None:
        """Add a connector behind all others.

        Args:
            connector: The connector.
        """
        self._insert(len(self.connectors), connector)

    def _insert(self, place: int, connector: ConnectorV2) -> None:
        self.connectors.insert(place, _checked(connector))
        self._fix_spaces(self.input_observation_space, self.input_action_space)

    # --- state ---

    def get_state(
        self, components: Any = None, *, not_components: Any = None, **kwargs: Any
    ) -> dict[str, Any]:
        """Return the states of those connectors that have one, by the names of their classes."""
        found = {}
        for connector in self.connectors:
            name = type(connector).__name__
            if chosen(name, components, not_components):
                state = connector.get_state(**kwargs)
                if state:
                    found[name] = state
        return found

    def set_state(self, state: dict[str, Any]) -> None:
        """Give connectors their states."""
        for connector in self.connectors:
            if type(connector).__name__ in state:
                connector.set_state(state[type(connector).__name__])

    def reset_state(self) -> None:
        """Let each connector forget its state."""
        for connector in self.connectors:
            connector.reset_state()

    def merge_states(self, states: list[dict[str, Any]]) -> dict[str, Any]:
        """Return by connector what its states and this pipeline's make together."""
        found = {}
        for connector in self.connectors:
            name = type(connector).__name__
            own = [state[name] for state in states if name in state]
            if own:
                found[name] = connector.merge_states(own)
        return found

    def _taken(self) -> None:
        for connector in self.connectors:
            connector._taken()

    def get_checkpointable_components(self) -> list[tuple[str, Any]]:
        """Return the connectors by the names of their classes."""
        return [(type(connector).__name__, connector) for connector in self.connectors]

    def get_ctor_args_and_kwargs(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments that make such a pipeline."""
        made = [(type(c), *c.get_ctor_args_and_kwargs()) for c in self.connectors]
        return (self.input_observation_space, self.input_action_space), {"connectors": made}

    def __repr__(self, indentation: int = 0) -> str:
        return self.__str__(indentation)

    def __str__(self, indentation: int = 0) -> str:
        lines = [" " * indentation + type(self).__name__]
        return "\n".join([*lines, *(c.__str__(indentation + 4) for c in self.connectors)])

    def __getitem__(self, key: int | str | type) -> Any:
        if isinstance(key, int):
            return self.connectors[key]
        if isinstance(key, type):
            return [c for c in self.connectors if isinstance(c, key)]
        if isinstance(key, str):
            return [c for c in self.connectors if type(c).__name__ == key]
        raise TypeError(f"A pipeline is indexed by a number, a class or its name, not {key!r}.")

    # --- spaces ---

    def recompute_output_observation_space(
        self, input_observation_space: Any, input_action_space: Any
    ) -> Any:
        """Return the space of observations that the last connector gives."""
        self._fix_spaces(input_observation_space, input_action_space)
        return self.observation_space

    def recompute_output_action_space(
        self, input_observation_space: Any, input_action_space: Any
    ) -> Any:
        """Return the space of actions that the last connector gives."""
        self._fix_spaces(input_observation_space, input_action_space)
        return self.action_space

    @property
    def observation_space(self) -> Any:
        """The space of observations that the last connector gives."""
        return self.connectors[-1].observation_space if self.connectors else self._observation_space

    @property
    def action_space(self) -> Any:
        """The space of actions that the last connector gives."""
        return self.connectors[-1].action_space if self.connectors else self._action_space

    def _fix_spaces(self, observation_space: Any, action_space: Any) -> None:
        if not self.connectors:
            self._observation_space, self._action_space = observation_space, action_space
        for connector in self.connectors:
            connector.input_action_space = action_space
            connector.input_observation_space = observation_space
            observation_space, action_space = connector.observation_space, connector.action_space


def _checked(connector: Any) -> ConnectorV2:
    if not isinstance(connector, ConnectorV2):
        raise ValueError(
            f"{connector!r} is not a connector: derive a class from ConnectorV2, and give an object of it."
        )
    return connector


def _name(connector: ConnectorV2) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", type(connector).__name__).lower()
