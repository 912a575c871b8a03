"""IMPALA: runners sample while learners train."""

from __future__ import annotations

from typing import Any, ClassVar

from heliostat.rllib.algorithms import metrics_names as names
from heliostat.rllib.algorithms.algorithm import Algorithm
from heliostat.rllib.algorithms.algorithm_config import AlgorithmConfig
from heliostat.rllib.algorithms.validation import schedule


class IMPALAConfig(AlgorithmConfig):
    """The settings of :class:`IMPALA`.

    Besides those of every algorithm, ``training()`` takes ``vtrace``, ``vtrace_clip_rho_threshold``,
    ``vtrace_clip_pg_rho_threshold``, ``vf_loss_coeff``, ``entropy_coeff`` (a number or a schedule),
    ``broadcast_interval``, ``opt_type`` (``"adam"`` or ``"rmsprop"``), ``decay``, ``momentum`` and
    ``epsilon``.

    Examples:
        >>> from ray.rllib.algorithms.impala import IMPALAConfig
        >>> config = IMPALAConfig().environment("CartPole-v1").env_runners(num_env_runners=2)
        >>> config = config.training(broadcast_interval=2, entropy_coeff=0.01)
        >>> config.broadcast_interval
        2
    """

    own: ClassVar[dict[str, Any]] = {
        "vtrace": True,
        "vtrace_clip_rho_threshold": 1.0,
        "vtrace_clip_pg_rho_threshold": 1.0,
        "broadcast_interval": 1,
        "vf_loss_coeff": 0.5,
        "entropy_coeff": 0.01,
        "opt_type": "adam",
        "decay": 0.99,
        "momentum": 0.0,
        "epsilon": 0.1,
    }
    changed: ClassVar[dict[str, Any]] = {
        "grad_clip": 40.0,
        "num_learners": 1,
        "rollout_fragment_length": 50,
        "train_batch_size": 500,
        "num_env_runners": 2,
        "lr": 0.0005,
        "min_time_s_per_iteration": 10,
    }

    learner_pieces: ClassVar[tuple[str, ...]] = ("one_more_step",)

    def __init__(self, algo_class: type | None = None) -> None:
        super().__init__(algo_class=algo_class or IMPALA)

    def get_default_rl_module_spec(self) -> Any:
        """Return the specification of a policy with a value function."""
        from heliostat.rllib.algorithms.ppo.default_ppo_torch_rl_module import (
            DefaultPPOTorchRLModule,
        )
        from heliostat.rllib.core.rl_module.rl_module import RLModuleSpec

        return RLModuleSpec(module_class=DefaultPPOTorchRLModule)

    def get_default_learner_class(self) -> Any:
        """Return the class of IMPALA's learners."""
        from heliostat.rllib.algorithms.impala.impala_torch_learner import IMPALATorchLearner

        return IMPALATorchLearner

    @property
    def supports_multi_agent(self) -> bool:
        """True."""
        return True

    @property
    def _model_config_auto_includes(self) -> dict[str, Any]:
        return {"vf_share_layers": True}

    def validate(self) -> None:
        """Check the settings."""
        super().validate()
        schedule("entropy_coeff", self.entropy_coeff)
        if self.opt_type not in ("adam", "rmsprop"):
            raise ValueError(f"opt_type={self.opt_type!r} must be 'adam' or 'rmsprop'.")
        if not isinstance(self.broadcast_interval, int) or self.broadcast_interval < 1:
            raise ValueError(f"broadcast_interval={self.broadcast_interval!r} must be at least 1.")


class IMPALA(Algorithm):
    """Trains on each batch as soon as runners have sent enough, and never waits for the slowest of them.

    Examples:
        >>> from ray.rllib.algorithms.impala import IMPALAConfig
        >>> config = IMPALAConfig().environment("CartPole-v1").env_runners(num_env_runners=4)
        >>> config.algo_class.__name__
        'IMPALA'
    """

    def setup(self, config: Any) -> None:
        """Make runners and learners."""
        super().setup(config)
        self._waiting: list[Any] = []
        self._updates = 0

    @classmethod
    def get_default_config(cls) -> AlgorithmConfig:
        """Return the default settings."""
        return IMPALAConfig()

    def training_step(self) -> None:
        """Take what runners have sent, let them go on, and train on a batch if there is one."""
        config = self.config
        with self.metrics.log_time((names.TIMERS, "env_runner_sampling_timer")):
            found = self.env_runner_group.sample_some(self._weights_ref)
        self._measured([stats for _, stats in found])
        self.env_runner_group.merge_connectors([rollout for rollout, _ in found])
        self._waiting += [rollout for rollout, _ in found]
        if sum(rollout.env_steps for rollout in self._waiting) < config.total_train_batch_size:
            if not found:
                self._restore_runners()
            return
        rollouts, self._waiting = self._waiting, []
        self._learn_of(rollouts)
        self._updates += 1
        if self._updates % config.broadcast_interval == 0:
            self.publish_weights()

    def _learn_of(self, rollouts: list[Any]) -> None:
        self.learn(rollouts=rollouts, minibatch_size=self.config.minibatch_size)


ImpalaConfig, Impala = IMPALAConfig, IMPALA
