"""Imitation of recorded actions, weighted by how much better they were than expected."""

from __future__ import annotations

from typing import Any, ClassVar

from heliostat.rllib.algorithms.algorithm_config import AlgorithmConfig
from heliostat.rllib.offline.learning import OfflineAlgorithm, check


class MARWILConfig(AlgorithmConfig):
    """The settings of :class:`MARWIL`.

    Besides those of every algorithm, ``training()`` takes ``beta`` (0 imitates all actions alike, 1 the
    better ones more), ``lambda_``, ``vf_coeff``, ``bc_logstd_coeff``,
    ``moving_average_sqd_adv_norm_start`` and ``moving_average_sqd_adv_norm_update_rate``. The data is what
    ``offline_data(input_=...)`` names.

    Examples:
        >>> from ray.rllib.algorithms.marwil import MARWILConfig
        >>> config = MARWILConfig().environment("CartPole-v1").offline_data(input_=["episodes/"])
        >>> config.training(beta=1.0).beta
        1.0
    """

    own: ClassVar[dict[str, Any]] = {
        "beta": 1.0,
        "bc_logstd_coeff": 0.0,
        "moving_average_sqd_adv_norm_update_rate": 1e-8,
        "moving_average_sqd_adv_norm_start": 100.0,
        "vf_coeff": 1.0,
        "lambda_": 1.0,
        "burnin_len": 0,
    }
    changed: ClassVar[dict[str, Any]] = {
        "lr": 1e-4,
        "train_batch_size": 2000,
        "materialize_data": True,
        "materialize_mapped_data": False,
    }

    learner_pieces: ClassVar[tuple[str, ...]] = ("one_more_step", "next_observations", "advantages")

    def __init__(self, algo_class: type | None = None) -> None:
        super().__init__(algo_class=algo_class or MARWIL)

    @property
    def is_online(self) -> bool:
        """False: episodes come from files."""
        return False

    def get_default_rl_module_spec(self) -> Any:
        """Return the specification of a policy with a value function."""
        from heliostat.rllib.algorithms.ppo.default_ppo_torch_rl_module import (
            DefaultPPOTorchRLModule,
        )
        from heliostat.rllib.core.rl_module.rl_module import RLModuleSpec

        return RLModuleSpec(module_class=DefaultPPOTorchRLModule)

    def get_default_learner_class(self) -> Any:
        """Return the class of learners."""
        from heliostat.rllib.algorithms.marwil.marwil_torch_learner import MARWILTorchLearner

        return MARWILTorchLearner

    @property
    def _model_config_auto_includes(self) -> dict[str, Any]:
        return {"vf_share_layers": True}

    def validate(self) -> None:
        """Check the settings."""
        super().validate()
        check(self)
        if not 0.0 <= self.beta <= 1.0:
            raise ValueError(f"beta={self.beta!r} must be from 0 to 1.")
        if not 0.0 <= self.lambda_ <= 1.0:
            raise ValueError(f"lambda_={self.lambda_!r} must be from 0 to 1.")
        if self.burnin_len:
            raise ValueError("burnin_len is not built in this release of Heliostat: leave it 0.")
        if self.ignore_final_observation and self.beta > 0.0:
            raise ValueError(
                "ignore_final_observation=True goes with beta=0 (BC): values need what steps led to."
            )


class MARWIL(OfflineAlgorithm):
    """Imitates recorded actions, those with more advantage more.

    Examples:
        >>> from ray.rllib.algorithms.marwil import MARWILConfig
        >>> config = MARWILConfig().environment("CartPole-v1").offline_data(input_=["recorded"])
        >>> config.training(beta=1.0).algo_class.__name__
        'MARWIL'
    """

    @classmethod
    def get_default_config(cls) -> MARWILConfig:
        """Return the default settings."""
        return MARWILConfig()

    @property
    def whole_episodes(self) -> bool:  # type: ignore[override] # a constant elsewhere
        """Whether advantages are needed, which are of steps in their order."""
        return bool(self.config.beta > 0.0)
