"""Episodes as bytes and as rows: the two forms that recorded data has."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from heliostat.core.platform.extras import required
from heliostat.rllib.core.columns import Columns
from heliostat.rllib.env.single_agent_episode import SingleAgentEpisode
from heliostat.rllib.utils.compression import pack_if_needed, unpack_if_needed
from heliostat.rllib.utils.nest import at, first, leaves, mapped

# Columns of rows that are not outputs of the module.
_KNOWN = {
    *(Columns.OBS, Columns.NEXT_OBS, Columns.ACTIONS, Columns.REWARDS, Columns.TERMINATEDS),
    *(Columns.TRUNCATEDS, Columns.EPS_ID, Columns.AGENT_ID, Columns.MODULE_ID, Columns.INFOS),
    *(Columns.T, "dones", "agent_index", "type", "unroll_id", "weights_seq_no"),
}


class DataError(ValueError):
    """Recorded data that no episodes can be made of."""


def packed(episode: SingleAgentEpisode) -> bytes:
    """An episode as MessagePack, arrays in the form of msgpack-numpy."""
    library = required("msgpack", "recording episodes", "msgpack")
    made: bytes = library.packb(_state(episode), default=encoded)
    return made


def unpacked(value: bytes) -> SingleAgentEpisode:
    """The episode of such bytes.

    Raises:
        DataError: They are of something else.
    """
    library = required("msgpack", "reading episodes", "msgpack")
    try:
        state = library.unpackb(value, object_hook=decoded, strict_map_key=False)
        return SingleAgentEpisode.from_state(state)
    except (ValueError, KeyError, TypeError, library.UnpackException) as error:
        raise DataError(
            f"A row of 'item' is not a recorded episode ({type(error).__name__}: {error}): "
            "input_read_episodes=True reads what output_write_episodes=True wrote."
        ) from error


def _state(episode: SingleAgentEpisode) -> dict[str, Any]:
    state = episode.to_numpy().get_state()
    infos = [{k: v for k, v in info.items() if _plain(v)} for info in episode.infos]
    state["infos"] = {**state["infos"], "data": infos}
    nothing = ("_observation_space", "_action_space", "_start_time", "_last_step_time")
    return {**state, **dict.fromkeys(nothing), "custom_data": {}}


def _plain(value: Any) -> bool:
    return isinstance(value, (bool, int, float, str, bytes, np.ndarray, np.generic, type(None)))


def encoded(value: Any) -> Any:
    """Arrays and numbers of numpy in the form of msgpack-numpy, as ``default`` of ``packb``."""
    if isinstance(value, np.ndarray):
        if value.dtype.kind in "OV":
            raise TypeError(f"An array of type {value.dtype} cannot be recorded.")
        return {
            b"nd": True,
            b"type": value.dtype.str,
            b"kind": b"",
            b"shape": value.shape,
            b"data": np.ascontiguousarray(value).tobytes(),
        }
    if isinstance(value, (np.bool_, np.number)):
        return {b"nd": False, b"type": value.dtype.str, b"data": value.tobytes()}
    raise TypeError(f"A value of type {type(value).__name__} cannot be recorded.")


def decoded(value: dict[Any, Any]) -> Any:
    """The object of which :func:`encoded` made a map; the ``object_hook`` of ``unpackb``."""
    if b"nd" not in value:
        return value
    kind = np.dtype(value[b"type"])
    if value[b"nd"]:
        return np.frombuffer(value[b"data"], kind).reshape(value[b"shape"]).copy()
    return np.frombuffer(value[b"data"], kind)[0]


def rows(episode: SingleAgentEpisode, compressed: list[str]) -> Iterator[dict[str, Any]]:
    """The steps of an episode, each a row of a dataset."""
    data = episode.to_numpy().get_data_dict()
    count = len(episode)
    for step in range(count):
        row = {
            Columns.EPS_ID: episode.id_,
            Columns.AGENT_ID: episode.agent_id,
            Columns.MODULE_ID: episode.module_id,
            **{
                key: at(value, step)
                for key, value in data.items()
                if key not in (Columns.EPS_ID, Columns.INFOS, Columns.T)
            },
        }
        yield {k: pack_if_needed(_array(v)) if k in compressed else v for k, v in row.items()}


def _array(value: Any) -> Any:
    return np.asarray(value) if isinstance(value, np.generic) else value


def of_rows(
    batch: dict[str, Any], schema: dict[str, str], without_final: bool
) -> list[SingleAgentEpisode]:
    """The episodes of rows: steps that follow each other are of one.

    Args:
        batch: By column, as many values as there are rows.
        schema: By the names of ``Columns``, the names that the data has.
        without_final: Whether the data lacks what steps led to.

    Raises:
        DataError: A column is missing; the message has those that are there.
    """

    def column(name: str, other: str | None = None) -> Any:
        for given in (schema.get(name, name), other):
            if given is not None and given in batch:
                return batch[given]
        raise DataError(
            f"The data has no column {schema.get(name, name)!r}: it has {', '.join(map(repr, batch))}. "
            "Name its columns by offline_data(input_read_schema={"
            f"{name!r}: ...}}), and read whole episodes with input_read_episodes=True."
        )

    observations = _values(column(Columns.OBS))
    count = len(first(observations))
    following = (
        mapped(np.zeros_like, observations) if without_final else _values(column(Columns.NEXT_OBS))
    )
    actions = _values(column(Columns.ACTIONS))
    rewards = np.asarray(column(Columns.REWARDS), np.float32).reshape(count)
    terminateds = np.asarray(column(Columns.TERMINATEDS, "dones"), bool).reshape(count)
    truncated_as = schema.get(Columns.TRUNCATEDS, Columns.TRUNCATEDS)
    truncateds = np.asarray(batch.get(truncated_as, np.zeros(count, bool)), bool).reshape(count)
    named = schema.get(Columns.EPS_ID, Columns.EPS_ID)
    ids = [str(name) for name in batch[named]] if named in batch else None
    taken = _KNOWN | set(schema.values())
    more = {key: _values(value) for key, value in batch.items() if key not in taken}
    more = {key: value for key, value in more.items() if first(value).dtype.kind in "biuf"}
    over = terminateds | truncateds
    goes_on = np.zeros(count, bool)  # whether a row's step is followed by the next row's
    if ids is not None and not without_final:
        same = np.array([a == b for a, b in pairwise(ids)], bool)
        for (_, then), (_, now) in zip(leaves(following), leaves(observations), strict=True):
            equal = then[:-1] == now[1:]
            same &= equal.reshape(count - 1, -1).all(1) if count > 1 else same
        goes_on[:-1] = same & ~over[:-1]
    found = []
    ends = np.flatnonzero(~goes_on) + 1
    for begin, end in zip([0, *ends[:-1]], ends, strict=True):
        part = slice(int(begin), int(end))
        last = int(end) - 1
        found.append(
            SingleAgentEpisode(
                ids[last] if ids is not None else None,
                observations=mapped(
                    lambda a, b: np.concatenate([a[part], b[last : last + 1]]),  # noqa: B023 - called at once
                    observations,
                    following,
                ),
                actions=at(actions, part),
                rewards=rewards[part],
                extra_model_outputs={key: at(value, part) for key, value in more.items()},
                terminated=bool(terminateds[last]),
                truncated=bool(truncateds[last]),
                len_lookback_buffer=0,
            )
        )
    return found


def _values(column: Any) -> Any:
    # A nest of arrays of shape `(rows, ...)`.
    if isinstance(column, np.ndarray) and column.dtype != object:
        if column.dtype.kind not in "SU":
            return column
        column = list(column)
    values = [unpack_if_needed(value) for value in column]
    if isinstance(values[0], dict):
        return {key: _values([value[key] for value in values]) for key in values[0]}
    if isinstance(values[0], tuple):
        return tuple(_values([v[i] for v in values]) for i in range(len(values[0])))
    return np.stack([np.asarray(_listed(value)) for value in values])


def _listed(value: Any) -> Any:
    # Arrays of arrays, as lists of lists come back from files.
    if isinstance(value, np.ndarray) and value.dtype == object:
        return np.stack([_listed(part) for part in value])
    return value
