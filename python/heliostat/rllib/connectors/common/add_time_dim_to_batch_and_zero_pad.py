"""The axis of time, for modules with a state."""

from __future__ import annotations

from typing import Any

import numpy as np

from heliostat.rllib.connectors.common.add_states_from_episodes_to_batch import (
    max_seq_len,
    module_of,
)
from heliostat.rllib.connectors.either_side import OfEitherSide
from heliostat.rllib.core import DEFAULT_MODULE_ID
from heliostat.rllib.core.columns import Columns
from heliostat.rllib.utils.nest import first, mapped
from heliostat.rllib.utils.spaces.space_utils import BatchedNdArray
from heliostat.rllib.utils.spaces.space_utils import batch as batched


class AddTimeDimToBatchAndZeroPad(OfEitherSide):
    """Gives items of modules with a state an axis of time: of runners one of length 1, of learners sequences
    of ``max_seq_len`` steps, filled up with zeros, with the columns ``seq_lens`` and ``loss_mask``.

    Args:
        input_observation_space: The space of observations that it gets. Default: the pipeline sets it.
        input_action_space: The space of actions that it gets. Default: the pipeline sets it.
        as_learner_connector: Whether it stands in a learner's pipeline. Default False.
        **kwargs: Has no effect.

    Examples:
        >>> from ray.rllib.algorithms.ppo import PPOConfig
        >>> from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
        >>> model = DefaultModelConfig(use_lstm=True, max_seq_len=10)  # has pipelines contain it
        >>> config = PPOConfig().environment("CartPole-v1").rl_module(model_config=model)
    """

    def __call__(
        self,
        *,
        rl_module: Any,
        batch: Any,
        episodes: Any,
        shared_data: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Return the batch with the axis of time."""
        if rl_module is None or not rl_module.is_stateful() or Columns.STATE_IN in batch:
            return batch
        shared = {} if shared_data is None else shared_data
        if not self._as_learner_connector:
            for column in batch:
                self.foreach_batch_item_change_in_place(batch, column, _with_time(rl_module))
            shared["_added_single_ts_time_rank"] = True
            return batch
        for column, by_episode in batch.items():
            if column == Columns.INFOS:
                continue
            for key, items in by_episode.items():
                module_id = key[2] if len(key) == 3 else None
                module = _of(rl_module, module_id)
                if module.is_stateful():
                    by_episode[key] = sequences(items, max_seq_len(module))
                    shared[f"_zero_padded_for_mid={module_id or DEFAULT_MODULE_ID}"] = True
        for episode in self.single_agent_episode_iterator(episodes, agents_that_stepped_only=False):
            module = module_of(rl_module, episode)
            if not module.is_stateful():
                continue
            every, count = max_seq_len(module), len(episode)
            lengths = [min(every, count - begin) for begin in range(0, count, every)]
            add = self.add_n_batch_items
            add(batch, Columns.SEQ_LENS, np.array(lengths, np.int32), len(lengths), episode)
            if not shared.get("_added_loss_mask_for_valid_episode_ts"):
                mask = np.arange(every) < np.array(lengths)[:, None]
                add(batch, Columns.LOSS_MASK, mask, len(mask), episode)
        return batch


def _of(rl_module: Any, module_id: str | None) -> Any:
    if not hasattr(rl_module, "foreach_module"):
        return rl_module
    return rl_module[module_id or DEFAULT_MODULE_ID]


def _with_time(rl_module: Any) -> Any:
    def one(item: Any, episode: Any, agent: Any, module_id: Any) -> Any:
        if not _of(rl_module, module_id).is_stateful():
            return item
        return mapped(
            lambda leaf: np.expand_dims(leaf, 1 if isinstance(leaf, BatchedNdArray) else 0), item
        )

    return one


def sequences(items: list[Any], length: int) -> list[Any]:
    """Items of one episode as sequences of ``length`` steps: a list of one batch of them."""
    whole = batched(items, individual_items_already_have_batch_dim="auto")
    count = len(first(whole))
    rows = -(-count // length)

    def cut(leaf: Any) -> Any:
        padded = np.zeros((rows * length, *leaf.shape[1:]), leaf.dtype)
        padded[:count] = leaf
        return padded.reshape(rows, length, *leaf.shape[1:]).view(BatchedNdArray)

    return [mapped(cut, whole)]
