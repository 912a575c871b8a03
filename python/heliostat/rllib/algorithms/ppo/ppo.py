"""Proximal policy optimization."""

from __future__ import annotations

from typing import Any, ClassVar

from heliostat.rllib.algorithms.algorithm import Algorithm
from heliostat.rllib.algorithms.algorithm_config import AlgorithmConfig
from heliostat.rllib.algorithms.validation import schedule


class PPOConfig(AlgorithmConfig):
    """The settings of :class:`PPO`.

    Besides those of every algorithm, ``training()`` takes ``use_critic``, ``use_gae``, ``lambda_``,
    ``use_kl_loss``, ``kl_coeff``, ``kl_target``, ``vf_loss_coeff``, ``entropy_coeff`` (a number or a
    schedule),
    ``clip_param`` and ``vf_clip_param``.

    Examples:
        >>> from ray.rllib.algorithms.ppo import PPOConfig
        >>> config = PPOConfig().environment("CartPole-v1")
        >>> config = config.training(lr=0.0003, num_epochs=10, clip_param=0.2)
        >>> config.clip_param
        0.2
    """

    own: ClassVar[dict[str, Any]] = {
        "use_critic": True,
        "use_gae": True,
        "lambda_": 1.0,
        "use_kl_loss": True,
        "kl_coeff": 0.2,
        "kl_target": 0.01,
        "vf_loss_coeff": 1.0,
        "entropy_coeff": 0.0,
        "clip_param": 0.3,
        "vf_clip_param": 10.0,
    }
    changed: ClassVar[dict[str, Any]] = {
        "lr": 5e-05,
        "rollout_fragment_length": "auto",
        "train_batch_size": 4000,
        "num_epochs": 30,
        "minibatch_size": 128,
        "shuffle_batch_per_epoch": True,
        "num_env_runners": 2,
    }

    learner_pieces: ClassVar[tuple[str, ...]] = ("one_more_step", "next_observations", "advantages")

    def __init__(self, algo_class: type | None = None) -> None:
        super().__init__(algo_class=algo_class or PPO)

    def get_default_rl_module_spec(self) -> Any:
        """Return the specification of a policy with a value function."""
        from heliostat.rllib.algorithms.ppo.default_ppo_torch_rl_module import (
            DefaultPPOTorchRLModule,
        )
        from heliostat.rllib.core.rl_module.rl_module import RLModuleSpec

        return RLModuleSpec(module_class=DefaultPPOTorchRLModule)

    def get_default_learner_class(self) -> Any:
        """Return the class of PPO's learners."""
        from heliostat.rllib.algorithms.ppo.ppo_torch_learner import PPOTorchLearner

        return PPOTorchLearner

    @property
    def supports_multi_agent(self) -> bool:
        """True."""
        return True

    @property
    def _model_config_auto_includes(self) -> dict[str, Any]:
        return {"vf_share_layers": False}

    def validate(self) -> None:
        """Check the settings."""
        super().validate()
        schedule("entropy_coeff", self.entropy_coeff)
        for name in ("clip_param", "vf_clip_param", "kl_target"):
            value = getattr(self, name)
            if not isinstance(value, (int, float)) or value <= 0:
                raise ValueError(f"{name}={value!r} must be a number above 0.")
        if not 0.0 <= self.lambda_ <= 1.0:
            raise ValueError(f"lambda_={self.lambda_!r} must be from 0 to 1.")
        length = self.rollout_fragment_length
        if length != "auto":
            per_round = length * self.num_envs_per_env_runner * max(self.num_env_runners, 1)
            if per_round > 2 * self.total_train_batch_size:
                raise ValueError(
                    f"One round of sampling makes {per_round} steps (of rollout_fragment_length, "
                    "environments and runners), "
                    f"and a train batch has {self.total_train_batch_size}: set "
                    "rollout_fragment_length='auto'."
                )


class PPO(Algorithm):
    """Samples a batch with all runners, trains on it for some epochs, and gives runners the new weights.

    Examples:
        >>> from ray.rllib.algorithms.ppo import PPOConfig
        >>> config = (
        ...     PPOConfig()
        ...     .environment("CartPole-v1")
        ...     .env_runners(num_env_runners=2)
        ...     .training(lr=0.0003, train_batch_size_per_learner=4000, num_epochs=10)
        ... )
        >>> config.algo_class.__name__, config.total_train_batch_size
        ('PPO', 4000)
    """

    @classmethod
    def get_default_config(cls) -> PPOConfig:
        """Return the default settings."""
        return PPOConfig()

    def training_step(self) -> None:
        """Sample one train batch, and train on it."""
        rollouts = self.sample_batch(self.config.total_train_batch_size)
        self.learn(
            rollouts=rollouts,
            num_epochs=self.config.num_epochs,
            minibatch_size=self.config.minibatch_size,
            shuffle_batch_per_epoch=self.config.shuffle_batch_per_epoch,
        )
        self.publish_weights()
