"""Soft actor-critic on recorded transitions, with values that are low where the data has no actions."""

from __future__ import annotations

from typing import Any, ClassVar

from heliostat.rllib.algorithms.sac.sac import SACConfig
from heliostat.rllib.offline.learning import OfflineAlgorithm, check


class CQLConfig(SACConfig):
    """The settings of :class:`CQL`.

    Besides those of SAC, ``training()`` takes ``bc_iters`` (how many updates the policy imitates first),
    ``temperature``, ``num_actions`` (how many actions of each kind the penalty looks at), ``min_q_weight``
    and ``deterministic_backup`` (whether targets leave out the entropy's worth).

    Examples:
        >>> from ray.rllib.algorithms.cql import CQLConfig
        >>> config = CQLConfig().environment("Pendulum-v1").offline_data(input_=["episodes/"])
        >>> config.training(bc_iters=200).bc_iters
        200
    """

    own: ClassVar[dict[str, Any]] = {
        "bc_iters": 20000,
        "temperature": 1.0,
        "num_actions": 10,
        "lagrangian": False,
        "lagrangian_thresh": 5.0,
        "min_q_weight": 5.0,
        "deterministic_backup": True,
        "actor_lr": 1e-4,
        "critic_lr": 1e-3,
        "alpha_lr": 1e-3,
    }
    changed: ClassVar[dict[str, Any]] = {
        "min_sample_timesteps_per_iteration": 0,
        "min_train_timesteps_per_iteration": 100,
        "materialize_mapped_data": True,
    }

    learner_pieces: ClassVar[tuple[str, ...]] = ("next_observations",)

    def __init__(self, algo_class: type | None = None) -> None:
        super().__init__(algo_class=algo_class or CQL)

    @property
    def is_online(self) -> bool:
        """False: transitions come from files."""
        return False

    def get_default_learner_class(self) -> Any:
        """Return the class of learners."""
        from heliostat.rllib.algorithms.cql.cql_torch_learner import CQLTorchLearner

        return CQLTorchLearner

    def validate(self) -> None:
        """Check the settings."""
        super().validate()
        check(self)
        if self.lagrangian:
            raise ValueError(
                "lagrangian=True is not built in this release of Heliostat: set min_q_weight."
            )
        if self.num_actions < 1:
            raise ValueError(f"num_actions={self.num_actions!r} must be at least 1.")
        if self.temperature <= 0:
            raise ValueError(f"temperature={self.temperature!r} must be above 0.")
        if self.ignore_final_observation:
            raise ValueError(
                "ignore_final_observation=True goes with BC: values need what steps led to."
            )


class CQL(OfflineAlgorithm):
    """Trains a policy and careful values on recorded transitions.

    Examples:
        >>> from ray.rllib.algorithms.cql import CQLConfig
        >>> config = CQLConfig().environment("Pendulum-v1").offline_data(input_=["recorded"])
        >>> config.training(bc_iters=200).algo_class.__name__
        'CQL'
    """

    @classmethod
    def get_default_config(cls) -> CQLConfig:
        """Return the default settings."""
        return CQLConfig()
