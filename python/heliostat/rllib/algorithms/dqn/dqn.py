"""Deep Q-learning, with the parts of Rainbow."""

from __future__ import annotations

from typing import Any, ClassVar

from heliostat.rllib.algorithms.replaying import OWN, ReplayingAlgorithm, ReplayingConfig
from heliostat.rllib.algorithms.validation import schedule


class DQNConfig(ReplayingConfig):
    """The settings of :class:`DQN`.

    Besides those of every algorithm, ``training()`` takes ``epsilon`` (a number or a schedule), ``double_q``,
    ``dueling``, ``hiddens``, ``n_step``, ``noisy``, ``sigma0``, ``num_atoms``, ``v_min``, ``v_max``,
    ``td_error_loss_fn``, ``adam_epsilon``, ``tau``, ``target_network_update_freq``, ``replay_buffer_config``,
    ``num_steps_sampled_before_learning_starts``, ``training_intensity`` and ``store_buffer_in_checkpoints``.

    Examples:
        >>> from ray.rllib.algorithms.dqn import DQNConfig
        >>> config = DQNConfig().environment("CartPole-v1")
        >>> config = config.training(epsilon=[(0, 1.0), (10_000, 0.02)], double_q=True, n_step=3)
        >>> config.n_step
        3
    """

    own: ClassVar[dict[str, Any]] = {
        **OWN,
        "epsilon": [(0, 1.0), (10000, 0.05)],
        "adam_epsilon": 1e-08,
        "num_atoms": 1,
        "v_min": -10.0,
        "v_max": 10.0,
        "noisy": False,
        "sigma0": 0.5,
        "dueling": True,
        "hiddens": [256],
        "double_q": True,
        "td_error_loss_fn": "huber",
    }
    changed: ClassVar[dict[str, Any]] = {
        "rollout_fragment_length": "auto",
        "grad_clip": 40.0,
        "lr": 0.0005,
        "train_batch_size": 32,
        "evaluation_config": {"explore": False},
        "min_sample_timesteps_per_iteration": 1000,
    }

    def __init__(self, algo_class: type | None = None) -> None:
        super().__init__(algo_class=algo_class or DQN)

    def get_default_rl_module_spec(self) -> Any:
        """Return the specification of a module with a value for each action."""
        from heliostat.rllib.algorithms.dqn.default_dqn_torch_rl_module import (
            DefaultDQNTorchRLModule,
        )
        from heliostat.rllib.core.rl_module.rl_module import RLModuleSpec

        return RLModuleSpec(module_class=DefaultDQNTorchRLModule)

    def get_default_learner_class(self) -> Any:
        """Return the class of DQN's learners."""
        from heliostat.rllib.algorithms.dqn.dqn_torch_learner import DQNTorchLearner

        return DQNTorchLearner

    @property
    def _model_config_auto_includes(self) -> dict[str, Any]:
        from heliostat.rllib.algorithms.dqn.default_dqn_torch_rl_module import READ

        return {name: getattr(self, name) for name in READ}

    def validate(self) -> None:
        """Check the settings."""
        super().validate()
        schedule("epsilon", self.epsilon)
        if self.td_error_loss_fn not in ("huber", "mse"):
            raise ValueError(
                f"td_error_loss_fn={self.td_error_loss_fn!r} must be 'huber' or 'mse'."
            )
        if self.num_atoms > 1 and not self.v_min < self.v_max:
            raise ValueError(f"v_min={self.v_min!r} must be below v_max={self.v_max!r}.")


class DQN(ReplayingAlgorithm):
    """Samples a little, and trains values of actions on random transitions of the buffer.

    Examples:
        >>> from ray.rllib.algorithms.dqn import DQNConfig
        >>> config = DQNConfig().environment("CartPole-v1").training(lr=0.0005, double_q=True)
        >>> config.algo_class.__name__
        'DQN'
    """

    @classmethod
    def get_default_config(cls) -> DQNConfig:
        """Return the default settings."""
        return DQNConfig()
