"""The part that algorithms with a replay buffer share: DQN and SAC."""

from __future__ import annotations

import copy
from typing import Any, ClassVar

import numpy as np

from heliostat.core.platform.extras import required
from heliostat.rllib.algorithms import metrics_names as names
from heliostat.rllib.algorithms.algorithm import Algorithm
from heliostat.rllib.algorithms.algorithm_config import AlgorithmConfig
from heliostat.rllib.core import DEFAULT_MODULE_ID
from heliostat.rllib.core.learner.batches import transitions
from heliostat.rllib.core.learner.torch.torch_learner import Followers, TorchLearner
from heliostat.rllib.utils.replay_buffers.choosing import buffer_of

torch = required("torch", "ray.rllib", "rllib")

# Settings of algorithms with a replay buffer.
OWN: dict[str, Any] = {
    "target_network_update_freq": 500,
    "num_steps_sampled_before_learning_starts": 1000,
    "store_buffer_in_checkpoints": False,
    "tau": 1.0,
    "n_step": 1,
    "training_intensity": None,
    "replay_buffer_config": {
        "type": "PrioritizedEpisodeReplayBuffer",
        "capacity": 50000,
        "alpha": 0.6,
        "beta": 0.4,
    },
}


class ReplayingConfig(AlgorithmConfig):
    """The settings that DQN and SAC share."""

    learner_pieces: ClassVar[tuple[str, ...]] = ("next_observations",)

    @property
    def supports_multi_agent(self) -> bool:
        """True."""
        return True

    def get_rollout_fragment_length(self, worker_index: int = 0) -> int:
        """Return how many steps of each environment make one sample of a runner.

        Args:
            worker_index: The runner. Default 0: the algorithm's own.
        """
        if self.rollout_fragment_length != "auto":
            return int(self.rollout_fragment_length)
        return int(self.n_step[1] if isinstance(self.n_step, (tuple, list)) else self.n_step)

    def validate(self) -> None:
        """Check the settings."""
        super().validate()
        if not 0.0 < self.tau <= 1.0:
            raise ValueError(f"tau={self.tau!r} must be above 0, and at most 1.")
        steps = self.n_step if isinstance(self.n_step, (tuple, list)) else (self.n_step,) * 2
        if len(steps) != 2 or not 1 <= steps[0] <= steps[1]:
            raise ValueError(
                f"n_step={self.n_step!r} must be at least 1, or a pair (least, most) to draw from."
            )
        if self.model_config.get("use_lstm"):
            raise ValueError(
                f"use_lstm=True is not built for {type(self).__name__}: use PPO or IMPALA."
            )
        buffer_of(self)


class ReplayingAlgorithm(Algorithm):
    """Samples a little, adds it to the buffer, and trains on random transitions of it."""

    def setup(self, config: Any) -> None:
        """Make runners, learners and the buffer."""
        super().setup(config)
        self.local_replay_buffer = buffer_of(self.config, self.config.n_step)
        self._owed = 0.0

    def training_step(self) -> None:
        """Sample, and train as often as the setting ``training_intensity`` says."""
        config = self.config
        random = self._timesteps < config.num_steps_sampled_before_learning_starts and self._draws()
        rollouts = self.sample_batch(1, random_actions=random)
        sampled = 0
        with self.metrics.log_time((names.TIMERS, "replay_buffer_add_data_timer")):
            for rollout in rollouts:
                self.local_replay_buffer.add(rollout)
                sampled += rollout.env_steps
        if self._timesteps < config.num_steps_sampled_before_learning_starts:
            return
        size = config.total_train_batch_size
        if config.training_intensity:
            self._owed += sampled * config.training_intensity / size
        else:
            self._owed += 1.0
        if self._owed < 1.0:
            return
        while self._owed >= 1.0:
            self._owed -= 1.0
            self._train_once(size)
        self.publish_weights()

    def _draws(self) -> bool:
        """Whether actions come from the space until learning starts."""
        return False

    def _train_once(self, size: int) -> None:
        config = self.config
        with self.metrics.log_time((names.TIMERS, "replay_buffer_sampling_timer")):
            found = self.local_replay_buffer.sample(size)
        batches = found if config.is_multi_agent else {DEFAULT_MODULE_ID: found}
        indices = {module_id: batch.pop("indices") for module_id, batch in batches.items()}
        given: dict[str, Any] = {"batch": batches}
        before: dict[str, int] = dict.fromkeys(batches, 0)  # rows in front of a module's
        if config.uses_connectors:
            episodes: list[Any] = []
            for module_id, batch in batches.items():
                before[module_id] = len(episodes)
                episodes += transitions(batch, module_id if config.is_multi_agent else None)
            given = {"episodes": episodes}
        with self.metrics.log_time((names.TIMERS, "learner_update_timer")):
            stats = self.learner_group.update(
                **given, timesteps={"num_env_steps_sampled_lifetime": self._timesteps}
            )
        # Each learner had every so-many-th row.
        priorities: dict[str, Any] = {}
        for rank, logged in enumerate(stats):
            for module_id, places in indices.items():
                own = logged.pop((module_id, "td_error"), None)
                if own is not None:
                    errors = priorities.setdefault(module_id, np.zeros(len(places), np.float32))
                    errors[(rank - before[module_id]) % len(stats) :: len(stats)] = own.last
        if config.is_multi_agent:
            self.local_replay_buffer.update_priorities(priorities, indices)
        else:
            self.local_replay_buffer.update_priorities(
                priorities[DEFAULT_MODULE_ID], indices[DEFAULT_MODULE_ID]
            )
        self.metrics.aggregate(stats, key=names.LEARNERS)

    def _own_state(self) -> dict[str, Any]:
        if not self.config.store_buffer_in_checkpoints:
            return {}
        return {"buffer": self.local_replay_buffer.get_state()}

    def _set_own_state(self, state: dict[str, Any]) -> None:
        if "buffer" in state:
            self.local_replay_buffer.set_state(state["buffer"])


class TargetLearner(TorchLearner):
    """A learner with copies of the modules that follow them slowly: the targets."""

    def build(self) -> None:
        """Make the modules, their optimizers and their targets."""
        super().build()
        if not hasattr(self, "_targets"):
            self._targets: dict[str, Any] = {}
            self._followers = Followers()
            self._last_target_update = 0
        for name, module in self.module.items():
            if name not in self._targets:
                self._targets[name] = copy.deepcopy(module).requires_grad_(False)

    def after_gradient_based_update(self, *, timesteps: dict[str, Any]) -> None:
        """Let the targets follow, when it is time."""
        super().after_gradient_based_update(timesteps=timesteps)
        every = self.config.target_network_update_freq
        if self._timestep - self._last_target_update < every:
            return
        self._last_target_update = self._timestep
        for name, module in self.module.items():
            config = self.config.get_config_for_module(name)
            self._followers.follow(name, self._targets[name], module, config.tau)
            self.metrics.log_value((name, "num_target_updates"), 1, reduce="lifetime_sum")
            self.metrics.log_value((name, "last_target_update_ts"), self._timestep, reduce="item")

    def told(self, module_id: str, errors: Any) -> None:
        """Keep the errors of a batch's rows, which priorities come from."""
        errors = errors.detach()
        self._later((module_id, "td_error_mean"), errors.abs().mean())
        self.metrics.log_value((module_id, "td_error"), errors, reduce="item")

    def _own_state(self) -> dict[str, Any]:
        return {"targets": {name: target.get_state() for name, target in self._targets.items()}}

    def _set_own_state(self, state: dict[str, Any]) -> None:
        for name, weights in state.get("targets", {}).items():
            self._targets[name].set_state(weights)
