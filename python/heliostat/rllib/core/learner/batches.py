"""Train batches: rows of steps, or of sequences for modules with a state."""

from __future__ import annotations

from typing import Any

import numpy as np

from heliostat.rllib.core import DEFAULT_MODULE_ID
from heliostat.rllib.core.columns import Columns
from heliostat.rllib.env.single_agent_episode import SingleAgentEpisode
from heliostat.rllib.utils.nest import at, mapped

_PLAIN = (Columns.STATE_IN,)


def flat(leaf: Any) -> Any:
    """``(steps, environments, ...)`` as rows, those of an environment one after the other."""
    return np.ascontiguousarray(leaf.swapaxes(0, 1)).reshape(-1, *leaf.shape[2:])


def flat_columns(
    rollout: Any, more: dict[str, Any]
) -> tuple[dict[str, Any], list[tuple[int, int]]]:
    """The columns of a rollout as rows, and the rows of each part of an episode."""
    steps = rollout.shape[0]
    columns = {key: mapped(flat, value) for key, value in {**rollout.columns, **more}.items()}
    segments = []
    for env, begin, end, _, _, _ in rollout.runs():
        if rollout.valid is None or rollout.valid[begin:end, env].all():
            segments.append((env * steps + begin, env * steps + end))
    return columns, segments


def rows_of(
    parts: list[tuple[dict[str, Any], list[tuple[int, int]]]], module: Any, max_seq_len: int
) -> dict[str, Any]:
    """Rows of several rollouts together; sequences for a module with a state."""
    chosen = []
    for columns, segments in parts:
        if module.is_stateful():
            chosen.append(_sequences(columns, segments, max_seq_len))
            continue
        total = len(columns[Columns.REWARDS])
        if sum(end - begin for begin, end in segments) != total:
            rows = np.concatenate([np.arange(b, e) for b, e in segments] or [np.zeros(0, int)])
            chosen.append(at(columns, rows))
            continue
        chosen.append(columns)
    if len(chosen) == 1:
        return chosen[0]
    shared = set.intersection(*(set(c) for c in chosen))
    return {
        key: mapped(lambda *leaves: np.concatenate(leaves), *(c[key] for c in chosen))
        for key in chosen[0]
        if key in shared
    }


def _sequences(
    columns: dict[str, Any], segments: list[tuple[int, int]], length: int
) -> dict[str, Any]:
    cuts = [
        (at, min(at + length, end)) for begin, end in segments for at in range(begin, end, length)
    ]
    index = np.zeros((len(cuts), length), np.int64)
    mask = np.zeros((len(cuts), length), bool)
    for row, (begin, end) in enumerate(cuts):
        index[row, : end - begin] = np.arange(begin, end)
        index[row, end - begin :] = end - 1
        mask[row, : end - begin] = True
    found = {
        key: mapped(lambda leaf: leaf[index], value)
        for key, value in columns.items()
        if key not in _PLAIN
    }
    starts = np.array([begin for begin, _ in cuts], np.int64)
    found[Columns.STATE_IN] = mapped(lambda leaf: leaf[starts], columns[Columns.STATE_IN])
    found[Columns.LOSS_MASK] = mask
    return found


def flat_of_rollouts(learner: Any, rollouts: list[Any]) -> dict[str, dict[str, Any]]:
    """The columns as they were sampled."""
    module = learner.module[DEFAULT_MODULE_ID]
    parts = [flat_columns(rollout, {}) for rollout in rollouts]
    return {DEFAULT_MODULE_ID: rows_of(parts, module, seq_len(module))}


def of_episodes(episodes: list[Any]) -> tuple[dict[str, Any], list[tuple[int, int]]]:
    """The columns of episodes as rows, and the rows of each."""
    rows: dict[str, list[Any]] = {}
    segments, at = [], 0
    for episode in episodes:
        data = episode.to_numpy().get_data_dict()
        for key in (Columns.INFOS, Columns.EPS_ID, Columns.T):
            data.pop(key)
        for key, value in data.items():
            rows.setdefault(key, []).append(value)
        segments.append((at, at + len(episode)))
        at += len(episode)
    whole = {key: values for key, values in rows.items() if len(values) == len(episodes)}
    joined = {
        key: mapped(lambda *leaves: np.concatenate([np.asarray(x) for x in leaves]), *values)
        for key, values in whole.items()
    }
    return joined, segments


def ends_of(segments: list[tuple[int, int]]) -> Any:
    """The rows that are the last ones of an episode, or of a part."""
    found = np.zeros(segments[-1][1], bool)
    found[[end - 1 for _, end in segments]] = True
    return found


def flat_of_episodes(learner: Any, episodes: list[Any]) -> dict[str, dict[str, Any]]:
    """The columns of episodes, for the one module."""
    module = learner.module[DEFAULT_MODULE_ID]
    return {DEFAULT_MODULE_ID: rows_of([of_episodes(episodes)], module, seq_len(module))}


def copied(episode: Any) -> Any:
    """An episode whose columns connectors may replace, while others keep theirs; its steps are shared."""
    kind: Any = type(episode)
    made = kind.__new__(kind)
    made.__dict__.update(vars(episode))
    if hasattr(episode, "agent_episodes"):
        made.agent_episodes = {
            agent: copied(own) for agent, own in episode.agent_episodes.items() if len(own)
        }
    else:
        made.infos = list(episode.infos)
        made.extra_model_outputs = dict(episode.extra_model_outputs)
    return made


def transitions(columns: dict[str, Any], module_id: str | None = None) -> list[Any]:
    """Rows of a replay buffer as episodes of one step each, for pipelines of learners."""
    given = {
        key: value
        for key, value in columns.items()
        if key
        not in (
            *(Columns.OBS, Columns.NEXT_OBS, Columns.ACTIONS, Columns.REWARDS),
            *(Columns.TERMINATEDS, Columns.TRUNCATEDS),
        )
    }
    found = []
    cut = columns.get(Columns.TRUNCATEDS)
    for row in range(len(columns[Columns.REWARDS])):
        pair = (at(columns[Columns.OBS], row), at(columns[Columns.NEXT_OBS], row))
        episode = SingleAgentEpisode(
            observations=mapped(lambda *leaves: np.stack(leaves), *pair),
            actions=at(columns[Columns.ACTIONS], slice(row, row + 1)),
            rewards=columns[Columns.REWARDS][row : row + 1],
            terminated=bool(columns[Columns.TERMINATEDS][row]),
            truncated=cut is not None and bool(cut[row]),
            extra_model_outputs={key: value[row : row + 1] for key, value in given.items()},
            len_lookback_buffer=0,
        )
        if module_id is not None:
            episode.agent_id, episode.module_id = module_id, module_id
            episode.multi_agent_episode_id = episode.id_
        found.append(episode)
    return found


def seq_len(module: Any) -> int:
    """The number of steps that a module with a state is trained through at a time."""
    return int(module.model_config.get("max_seq_len", 20)) if module.model_config else 20
