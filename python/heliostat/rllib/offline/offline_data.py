"""Recorded episodes that are learned from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from heliostat.rllib.offline.recorded import DataError, of_rows, unpacked
from heliostat.rllib.utils.replay_buffers.episode_replay_buffer import EpisodeReplayBuffer


class OfflineData:
    """The dataset that ``offline_data(input_=...)`` names, and random samples of it.

    With ``materialize_data`` or ``materialize_mapped_data`` all of it is decoded once and kept; without, ten
    train batches of it are, which move on through the data with each sample.

    Args:
        config: The algorithm's settings.

    Attributes:
        data: The ``Dataset``.

    Raises:
        ValueError: There is no such way to read, or nothing to read.

    Examples:
        >>> import ray
        >>> from ray.rllib.algorithms.bc import BCConfig
        >>> from ray.rllib.offline import OfflineData
        >>> rows = ray.data.from_items(
        ...     [{"obs": [0.0] * 4, "actions": 1}, {"obs": [1.0] * 4, "actions": 0}]
        ... )
        >>> config = BCConfig().environment("CartPole-v1").offline_data(input_=lambda: rows)
        >>> OfflineData(config).data.count()
        2
    """

    def __init__(self, config: Any) -> None:
        from heliostat import data

        self.config = config
        given = config.input_
        if hasattr(given, "iter_batches"):
            self.data = given
        elif callable(given):
            self.data = given()
        else:
            method = getattr(data, config.input_read_method, None)
            if method is None or not config.input_read_method.startswith("read_"):
                raise ValueError(
                    f"input_read_method={config.input_read_method!r} is not a function of ray.data that "
                    "reads: it is 'read_parquet', 'read_json' or another."
                )
            paths = list(given) if isinstance(given, (list, tuple)) else given
            self.data = method(paths, **config.input_read_method_kwargs)
        self._random = np.random.default_rng(config.seed)
        self._kept = bool(config.materialize_data or config.materialize_mapped_data)
        self._passing: Iterator[list[Any]] | None = None
        self._episodes: list[Any] | None = None
        self._order: list[int] = []
        self._buffer: EpisodeReplayBuffer | None = None

    def _batches(self) -> Iterator[list[Any]]:
        config = self.config
        how = {"batch_size": config.input_read_batch_size or 256, "batch_format": "numpy"}
        if config.input_read_episodes and not config.input_read_batch_size:
            how["batch_size"] = 16
        how |= config.iter_batches_kwargs
        some = False
        for batch in self.data.iter_batches(**how):
            if config.input_read_episodes:
                if "item" not in batch:
                    raise DataError(
                        "input_read_episodes=True reads the column 'item', and the data has "
                        f"{', '.join(map(repr, batch))}: it holds steps, not episodes; "
                        "leave the setting False."
                    )
                found = [unpacked(value) for value in batch["item"]]
            else:
                if set(batch) == {"item"}:
                    raise DataError(
                        "The data holds whole episodes: set offline_data(input_read_episodes=True)."
                    )
                found = of_rows(batch, config.input_read_schema, config.ignore_final_observation)
            found = [episode for episode in found if len(episode)]
            some = some or bool(found)
            yield found
        if not some:
            raise DataError(f"There are no steps in {config.input_!r}.")

    def _next(self) -> list[Any]:
        # The next episodes; after the last come the first again.
        while True:
            if self._passing is None:
                self._passing = self._batches()
            found = next(self._passing, None)
            if found:
                return found
            if found is None:
                self._passing = None

    def _all(self) -> list[Any]:
        if self._episodes is None:
            self._episodes = [e for part in self._batches() for e in part]
        return self._episodes

    def sample_steps(self, count: int) -> dict[str, Any]:
        """Return random transitions: arrays by column.

        Args:
            count: How many.
        """
        if self._buffer is None:
            if self._kept:
                episodes = self._all()
                total = sum(map(len, episodes))
                self._buffer = self._made(total)
                self._buffer.add(episodes)
                self._episodes = None
            else:
                self._buffer = self._made(10 * count)
                while self._buffer.added < self._buffer.capacity:
                    before, passing = self._buffer.added, self._passing
                    self._buffer.add(self._next())
                    if passing is not None and self._passing is not passing and before:
                        break  # all of it is there
        elif not self._kept:
            begun = self._buffer.added
            while self._buffer.added < begun + count:
                self._buffer.add(self._next())
        found = self._buffer.sample(count)
        found.pop("indices")
        return found

    def _made(self, capacity: int) -> EpisodeReplayBuffer:
        steps = getattr(self.config, "n_step", 1)
        gamma, seed = self.config.gamma, self.config.seed
        return EpisodeReplayBuffer(capacity, n_step=steps, gamma=gamma, seed=seed)

    def sample_episodes(self, steps: int) -> list[Any]:
        """Return random episodes, or parts of them.

        Args:
            steps: How many steps they have together at least.
        """
        found: list[Any] = []
        had = 0
        while had < steps:
            if self._kept:
                episodes = self._all()
                if not self._order:
                    self._order = list(self._random.permutation(len(episodes)))
                chosen = [episodes[self._order.pop()]]
            else:
                chosen = self._next()
            found += chosen
            had += sum(map(len, chosen))
        return found
