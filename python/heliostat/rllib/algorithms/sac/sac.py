"""Soft actor-critic."""

from __future__ import annotations

import copy
from typing import Any, ClassVar

from heliostat.rllib.algorithms.replaying import OWN, ReplayingAlgorithm, ReplayingConfig
from heliostat.rllib.algorithms.validation import schedule


class SACConfig(ReplayingConfig):
    """The settings of :class:`SAC`.

    Besides those of every algorithm, ``training()`` takes ``twin_q``, ``tau``, ``initial_alpha``,
    ``target_entropy`` (``"auto"`` or a number), ``n_step``, ``actor_lr``, ``critic_lr``, ``alpha_lr``
    (numbers or schedules), ``target_network_update_freq``, ``replay_buffer_config``, ``training_intensity``,
    ``num_steps_sampled_before_learning_starts`` and ``store_buffer_in_checkpoints``.

    Examples:
        >>> from ray.rllib.algorithms.sac import SACConfig
        >>> config = SACConfig().environment("Pendulum-v1")
        >>> config = config.training(actor_lr=0.0003, critic_lr=0.0003, alpha_lr=0.0003)
        >>> config.critic_lr
        0.0003
    """

    own: ClassVar[dict[str, Any]] = {
        **copy.deepcopy(OWN),
        "twin_q": True,
        "tau": 0.005,
        "initial_alpha": 1.0,
        "target_entropy": "auto",
        "actor_lr": 3e-5,
        "critic_lr": 3e-4,
        "alpha_lr": 3e-4,
        "target_network_update_freq": 0,
        "num_steps_sampled_before_learning_starts": 1500,
        "replay_buffer_config": {
            "type": "PrioritizedEpisodeReplayBuffer",
            "capacity": 1_000_000,
            "alpha": 0.6,
            "beta": 0.4,
        },
    }
    changed: ClassVar[dict[str, Any]] = {
        "lr": None,
        "rollout_fragment_length": "auto",
        "train_batch_size": 256,
        "train_batch_size_per_learner": 256,
        "min_time_s_per_iteration": 1,
        "min_sample_timesteps_per_iteration": 100,
    }

    def __init__(self, algo_class: type | None = None) -> None:
        super().__init__(algo_class=algo_class or SAC)

    def get_default_rl_module_spec(self) -> Any:
        """Return the specification of a policy with twin values."""
        from heliostat.rllib.algorithms.sac.default_sac_torch_rl_module import (
            DefaultSACTorchRLModule,
        )
        from heliostat.rllib.core.rl_module.rl_module import RLModuleSpec

        return RLModuleSpec(module_class=DefaultSACTorchRLModule)

    def get_default_learner_class(self) -> Any:
        """Return the class of SAC's learners."""
        from heliostat.rllib.algorithms.sac.sac_torch_learner import SACTorchLearner

        return SACTorchLearner

    @property
    def _model_config_auto_includes(self) -> dict[str, Any]:
        return {"twin_q": self.twin_q, "fcnet_activation": "relu"}

    def validate(self) -> None:
        """Check the settings."""
        super().validate()
        for name in ("actor_lr", "critic_lr", "alpha_lr"):
            schedule(name, getattr(self, name))
        if self.initial_alpha <= 0:
            raise ValueError(f"initial_alpha={self.initial_alpha!r} must be above 0.")


class SAC(ReplayingAlgorithm):
    """Samples a little, and trains a policy that is rewarded for its entropy, too.

    Examples:
        >>> from ray.rllib.algorithms.sac import SACConfig
        >>> config = SACConfig().environment("Pendulum-v1").training(tau=0.005, initial_alpha=1.0)
        >>> config.algo_class.__name__
        'SAC'
    """

    def _draws(self) -> bool:
        return True

    @classmethod
    def get_default_config(cls) -> SACConfig:
        """Return the default settings."""
        return SACConfig()
