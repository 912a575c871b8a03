"""A runner whose episodes are written."""

from __future__ import annotations

from typing import Any

from heliostat.rllib.env.connected_env_runner import ConnectedEnvRunner
from heliostat.rllib.env.env_runner import EnvRunner
from heliostat.rllib.env.single_agent_env_runner import SingleAgentEnvRunner
from heliostat.rllib.offline.recorded import packed, rows


class _Writes(EnvRunner):
    """The base of runners that write."""

    config: Any
    metrics: Any
    worker_index: int

    def __init__(self, **kwargs: Any) -> None:
        self._rows: list[Any] = []
        self._samples = 0
        super().__init__(**kwargs)

    def sample_rollout(self, *arguments: Any, **how: Any) -> Any:
        """Sample, and write.

        Args:
            *arguments: As of ``SingleAgentEnvRunner.sample_rollout``.
            **how: As of ``SingleAgentEnvRunner.sample_rollout``.

        Returns:
            What was sampled.
        """
        rollout: Any = super().sample_rollout(*arguments, **how)  # type: ignore[misc] # of the base beside
        config = self.config
        self._samples += 1
        for episode in self._episodes_of(rollout):
            if config.output_write_episodes:
                self._rows.append(packed(episode))
            else:
                self._rows.extend(rows(episode, config.output_compress_columns))
        most = config.output_max_rows_per_file
        part = 0
        while self._rows and len(self._rows) >= (most or 1):
            now = self._rows[:most] if most else self._rows
            self._rows = self._rows[len(now) :]
            self._write(now, part)
            part += 1
        self.metrics.log_value("recording_buffer_size", len(self._rows), reduce="item")
        return rollout

    def stop(self) -> None:
        """Write what is left, where the setting says so, and close the environments."""
        if self._rows and self.config.output_write_remaining_data:
            self._samples += 1
            self._write(self._rows, 0)
            self._rows = []
        super().stop()

    def _episodes_of(self, rollout: Any) -> list[Any]:
        """Return the episodes of what was sampled: arrays of them, or episodes already."""
        raise NotImplementedError

    def _write(self, written: list[Any], part: int) -> None:
        from heliostat import data

        config = self.config
        name = config.env if isinstance(config.env, str) else getattr(config.env, "__name__", "env")
        folder = f"{str(config.output).rstrip('/')}/{name.lower()}"
        run = f"run-{self.worker_index:06d}-{self._samples:05d}" + (f"-{part}" if part else "")
        how = dict(config.output_write_method_kwargs)
        # The runners may have all CPUs of the cluster: writing waits for none.
        how.setdefault("ray_remote_args", {"num_cpus": 0})
        method = getattr(
            data.from_items(written, override_num_blocks=1), config.output_write_method
        )
        method(f"{folder}/{run}", **how)


class OfflineSingleAgentEnvRunner(_Writes, SingleAgentEnvRunner):
    """Writes what it samples: with each sample a folder ``output/environment/run-<runner>-<sample>``.

    ``offline_data(output_write_episodes=True)`` writes episodes, each as MessagePack in the column ``item``;
    with False each step is a row. ``output_max_rows_per_file`` keeps rows back until there are as many; those
    left when the runner ends are written with ``output_write_remaining_data=True``.

    Args:
        **kwargs: Those of ``SingleAgentEnvRunner``.

    Examples:
        >>> from ray.rllib.algorithms.ppo import PPOConfig
        >>> from ray.rllib.offline import OfflineSingleAgentEnvRunner
        >>> config = (
        ...     PPOConfig()
        ...     .environment("CartPole-v1")
        ...     .env_runners(env_runner_cls=OfflineSingleAgentEnvRunner)
        ...     .offline_data(output="/data/cartpole", output_write_episodes=True)
        ... )

        ``config.build_algo()`` writes what it samples.
    """

    def _episodes_of(self, rollout: Any) -> list[Any]:
        return list(rollout.episodes(self._observation_space, self._action_space))


class OfflineConnectedEnvRunner(_Writes, ConnectedEnvRunner):
    """The same with connectors: what they made of observations is written."""

    def _episodes_of(self, rollout: Any) -> list[Any]:
        return [episode for episode in rollout.episodes if len(episode)]
