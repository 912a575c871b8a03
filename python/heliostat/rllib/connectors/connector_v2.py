"""A piece of a pipeline: a function of episodes and of the batch that is made of them."""

from __future__ import annotations

import abc
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from heliostat.rllib.env.single_agent_episode import SingleAgentEpisode
from heliostat.rllib.utils.checkpoints import Checkpointable
from heliostat.rllib.utils.nest import mapped
from heliostat.rllib.utils.spaces.space_utils import BatchedNdArray

__all__ = ["ConnectorV2"]


class ConnectorV2(Checkpointable, abc.ABC):
    """Base of connectors: implement :meth:`__call__`.

    In a batch each column has, until ``BatchIndividualItems``, lists of items by episode: a dict whose keys
    are ``(episode id,)``, and with several agents ``(episode id, agent id, module id)``.

    Args:
        input_observation_space: The space of observations that it gets. Default: the pipeline sets it.
        input_action_space: The space of actions that it gets. Default: the pipeline sets it.
        **kwargs: Has no effect.

    Attributes:
        observation_space: The space of observations that it gives.
        action_space: The space of actions that it gives.

    Examples:
        >>> import numpy as np
        >>> from ray.rllib.connectors.connector_v2 import ConnectorV2
        >>> class Doubling(ConnectorV2):
        ...     def __call__(self, *, rl_module, batch, episodes, **kwargs):
        ...         return {"obs": 2 * np.asarray(batch["obs"])}
        >>> Doubling()(rl_module=None, batch={"obs": [1, 2]}, episodes=[])["obs"].tolist()
        [2, 4]
    """

    def __new__(cls, *arguments: Any, **keywords: Any) -> ConnectorV2:
        made = super().__new__(cls)
        made._made_of = (arguments, keywords)
        return made

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        _show_arguments_of_init(cls)

    def __init__(
        self, input_observation_space: Any = None, input_action_space: Any = None, **kwargs: Any
    ) -> None:
        self._observation_space: Any = None
        self._action_space: Any = None
        self._input_observation_space: Any = None
        self._input_action_space: Any = None
        self.input_action_space = input_action_space
        self.input_observation_space = input_observation_space

    _made_of: tuple[tuple[Any, ...], dict[str, Any]] = ((), {})

    @abc.abstractmethod
    def __call__(
        self,
        *,
        rl_module: Any,
        batch: dict[str, Any],
        episodes: list[Any],
        explore: bool | None = None,
        shared_data: dict[str, Any] | None = None,
        metrics: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Return the batch, changed or not.

        Args:
            rl_module: The module, or the ``MultiRLModule``.
            batch: The batch so far, by column; after ``AgentToModuleMapping`` by module id and column.
            episodes: The episodes: those that are sampled, or those that are learned from.
            explore: Whether actions are drawn. Default None: it does not matter here.
            shared_data: What pieces tell each other during one pass. Default: nothing.
            metrics: What values are logged with. Default: nothing is logged.
            **kwargs: More, in later releases.
        """

    # --- spaces ---

    def recompute_output_observation_space(
        self, input_observation_space: Any, input_action_space: Any
    ) -> Any:
        """Return the space of the observations that this connector gives.

        Args:
            input_observation_space: The space of those that it gets.
            input_action_space: The space of actions that it gets.
        """
        return self.input_observation_space

    def recompute_output_action_space(
        self, input_observation_space: Any, input_action_space: Any
    ) -> Any:
        """Return the space of the actions that this connector gives.

        Args:
            input_observation_space: The space of observations that it gets.
            input_action_space: The space of the actions that it gets.
        """
        return self.input_action_space

    @property
    def observation_space(self) -> Any:
        """The space of observations that it gives."""
        return self._observation_space

    @property
    def action_space(self) -> Any:
        """The space of actions that it gives."""
        return self._action_space

    @property
    def input_observation_space(self) -> Any:
        """The space of observations that it gets."""
        return self._input_observation_space

    @input_observation_space.setter
    def input_observation_space(self, value: Any) -> None:
        self._input_observation_space = value
        if value is not None:
            self._observation_space = self.recompute_output_observation_space(
                value, self.input_action_space
            )

    @property
    def input_action_space(self) -> Any:
        """The space of actions that it gets."""
        return self._input_action_space

    @input_action_space.setter
    def input_action_space(self, value: Any) -> None:
        self._input_action_space = value
        if value is not None:
            self._action_space = self.recompute_output_action_space(
                self.input_observation_space, value
            )

    # --- helpers of implementations ---

    @staticmethod
    def single_agent_episode_iterator(
        episodes: list[Any],
        agents_that_stepped_only: bool = True,
        zip_with_batch_column: Any = None,
    ) -> Iterator[Any]:
        """Yield the episodes of single agents, those within episodes of several included.

        Args:
            episodes: Episodes of either kind.
            agents_that_stepped_only: Of several agents only those that saw something in the last step.
                Default True.
            zip_with_batch_column: A column of the batch: then pairs of episode and item are yielded. Default:
                episodes alone.

        Raises:
            ValueError: The column does not have an item for each episode.
        """
        chosen: list[tuple[Any, tuple[Any, ...]]] = []
        for episode in episodes:
            if isinstance(episode, SingleAgentEpisode):
                chosen.append((episode, _key(episode)))
                continue
            agents = (
                episode.get_agents_that_stepped()
                if agents_that_stepped_only
                else list(episode.agent_episodes)
            )
            for agent in agents:
                own = episode.agent_episodes[agent]
                chosen.append((own, _key(own)))
        if zip_with_batch_column is None:
            for episode, _ in chosen:
                yield episode
            return
        column = zip_with_batch_column
        have = len(column) if isinstance(column, list) else sum(map(len, column.values()))
        if have < len(chosen):
            raise ValueError(
                f"zip_with_batch_column has {have} items for {len(chosen)} episodes: it needs one for each."
            )
        used: dict[Any, int] = {}
        for place, (episode, key) in enumerate(chosen):
            if isinstance(column, list):
                yield episode, column[place]
                continue
            at = used.get(key, 0)
            used[key] = at + 1
            if at >= len(column.get(key, ())):
                raise ValueError(f"zip_with_batch_column has no item left for the episode {key}.")
            yield episode, column[key][at]

    @staticmethod
    def add_batch_item(
        batch: dict[str, Any],
        column: str,
        item_to_add: Any,
        single_agent_episode: Any = None,
    ) -> None:
        """Add one item to a column.

        Args:
            batch: The batch.
            column: The column's name.
            item_to_add: The item, without an axis of the batch.
            single_agent_episode: The episode that it is of. Default: the column is a plain list.

        Raises:
            ValueError: The batch is by module id already.
        """
        if single_agent_episode is None:
            batch.setdefault(column, []).append(item_to_add)
            return
        if single_agent_episode.module_id is not None and single_agent_episode.module_id in batch:
            raise ValueError(
                f"The batch is by module id ({single_agent_episode.module_id!r}) already: call "
                "add_batch_item() in a connector before AgentToModuleMapping."
            )
        items = batch.setdefault(column, {}).setdefault(_key(single_agent_episode), [])
        items.append(item_to_add)

    @staticmethod
    def add_n_batch_items(
        batch: dict[str, Any],
        column: str,
        items_to_add: Any,
        num_items: int,
        single_agent_episode: Any = None,
    ) -> None:
        """Add several items to a column.

        Args:
            batch: The batch.
            column: The column's name.
            items_to_add: A list of items, or nests of arrays whose first axis counts them.
            num_items: How many there are.
            single_agent_episode: The episode that they are of. Default: the column is a plain list.

        Raises:
            ValueError: The list has another length, or the batch is by module id already.
        """
        add = ConnectorV2.add_batch_item
        if isinstance(items_to_add, list):
            if len(items_to_add) != num_items:
                raise ValueError(
                    f"add_n_batch_items() got {len(items_to_add)} items of {column!r} and "
                    f"num_items={num_items}."
                )
            for item in items_to_add:
                add(batch, column, item, single_agent_episode)
            return
        tagged = mapped(lambda leaf: np.asarray(leaf).view(BatchedNdArray), items_to_add)
        add(batch, column, tagged, single_agent_episode)

    @staticmethod
    def foreach_batch_item_change_in_place(
        batch: dict[str, Any], column: str | list[str] | tuple[str, ...], func: Callable[..., Any]
    ) -> None:
        """Replace each item of a column, or of several side by side, by what a function makes of it.

        Args:
            batch: The batch.
            column: The column's name, or several: then items come and go as tuples.
            func: Takes the item, the id of the episode, of the agent and of the module (None where there is
                none), and returns the new item.

        Raises:
            ValueError: The batch has no such column.
        """
        single = isinstance(column, str)
        names: list[str] = [column] if isinstance(column, str) else list(column)
        missing = [name for name in names if name not in batch]
        if missing:
            raise ValueError(
                f"The batch has no column {missing[0]!r}: it has {', '.join(map(repr, batch))}."
            )
        held = [batch[name] for name in names]
        places: list[tuple[list[list[Any]], tuple[Any, Any, Any]]] = []
        if isinstance(held[0], list):
            places.append((held, (None, None, None)))
        else:
            for key in held[0]:
                about = key if len(key) == 3 else (key[0], None, None)
                places.append(([lists[key] for lists in held], about))
        for lists, about in places:
            for place, items in enumerate(zip(*lists, strict=True)):
                found = func(items[0] if single else items, *about)
                for items_of, item in zip(lists, (found,) if single else found, strict=True):
                    items_of[place] = item

    @staticmethod
    def switch_batch_from_column_to_module_ids(batch: dict[str, Any]) -> dict[str, Any]:
        """Return a batch of columns by module id as one of modules by column.

        Args:
            batch: By column, then by module id.
        """
        found: dict[str, Any] = {}
        for column, by_module in batch.items():
            for module_id, data in by_module.items():
                found.setdefault(module_id, {})[column] = data
        return found

    # --- state ---

    def get_state(
        self, components: Any = None, *, not_components: Any = None, **kwargs: Any
    ) -> dict[str, Any]:
        """Return the state: nothing, unless the connector has one.

        Args:
            components: Which parts; default: all.
            not_components: Which parts not; default: none.
            **kwargs: More, in later releases.
        """
        return {}

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over what :meth:`get_state` returned.

        Args:
            state: The state.
        """

    def reset_state(self) -> None:
        """Forget the state."""

    def merge_states(self, states: list[dict[str, Any]]) -> dict[str, Any]:
        """Return the state that this one's and those of other runners make together.

        Args:
            states: What ``get_state()`` of each runner's connector returned.
        """
        return {}

    def _taken(self) -> None:
        """The state was handed on: what is merged next time comes after it."""

    def get_ctor_args_and_kwargs(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments that make such a connector."""
        return self._made_of

    def __str__(self, indentation: int = 0) -> str:
        return " " * indentation + type(self).__name__


def _key(episode: Any) -> tuple[Any, ...]:
    if episode.agent_id is not None:
        return (episode.multi_agent_episode_id, episode.agent_id, episode.module_id)
    return (episode.id_,)


def _show_arguments_of_init(kind: Any) -> None:
    """Have ``inspect`` and ``help`` show the arguments of ``__init__``, not those of ``__new__``."""
    parameters = list(inspect.signature(kind.__init__).parameters.values())[1:]
    kind.__signature__ = inspect.Signature(parameters)


_show_arguments_of_init(ConnectorV2)
