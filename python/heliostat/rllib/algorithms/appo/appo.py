"""APPO: PPO whose runners sample while learners train."""

from __future__ import annotations

import random
from typing import Any, ClassVar

from heliostat.rllib.algorithms.impala.impala import IMPALA, IMPALAConfig


class APPOConfig(IMPALAConfig):
    """The settings of :class:`APPO`.

    Besides those of IMPALA, ``training()`` takes ``clip_param``, ``use_kl_loss``, ``kl_coeff``,
    ``kl_target``,
    ``target_worker_clipping``, ``target_network_update_freq`` (in updates), ``tau``,
    ``circular_buffer_num_batches`` and ``circular_buffer_iterations_per_batch``.

    Examples:
        >>> from ray.rllib.algorithms.appo import APPOConfig
        >>> config = APPOConfig().environment("CartPole-v1").training(clip_param=0.3)
        >>> config.clip_param
        0.3
    """

    own: ClassVar[dict[str, Any]] = {
        "clip_param": 0.4,
        "use_kl_loss": False,
        "kl_coeff": 1.0,
        "kl_target": 0.01,
        "target_worker_clipping": 2.0,
        "target_network_update_freq": 2,
        "tau": 1.0,
        "circular_buffer_num_batches": 8,
        "circular_buffer_iterations_per_batch": 2,
    }

    def __init__(self, algo_class: type | None = None) -> None:
        super().__init__(algo_class=algo_class or APPO)

    def get_default_learner_class(self) -> Any:
        """Return the class of APPO's learners."""
        from heliostat.rllib.algorithms.appo.appo_torch_learner import APPOTorchLearner

        return APPOTorchLearner

    def validate(self) -> None:
        """Check the settings."""
        super().validate()
        for name in (
            "circular_buffer_num_batches",
            "circular_buffer_iterations_per_batch",
            "target_network_update_freq",
        ):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 1:
                raise ValueError(f"{name}={value!r} must be a whole number of at least 1.")


class APPO(IMPALA):
    """Keeps the last batches, and trains on each of them a few times.

    Examples:
        >>> from ray.rllib.algorithms.appo import APPOConfig
        >>> config = APPOConfig().environment("CartPole-v1").env_runners(num_env_runners=4)
        >>> config.algo_class.__name__
        'APPO'
    """

    def setup(self, config: Any) -> None:
        """Make runners and learners."""
        super().setup(config)
        self._batches: list[list[Any]] = []
        self._random = random.Random(self.config.seed)

    @classmethod
    def get_default_config(cls) -> APPOConfig:
        """Return the default settings."""
        return APPOConfig()

    def _learn_of(self, rollouts: list[Any]) -> None:
        config = self.config
        times = config.circular_buffer_iterations_per_batch
        self._batches.append([rollouts, times])
        del self._batches[: -config.circular_buffer_num_batches]
        for _ in range(times):
            if not self._batches:
                return
            place = self._random.randrange(len(self._batches))
            chosen = self._batches[place]
            super()._learn_of(chosen[0])
            chosen[1] -= 1
            if not chosen[1]:
                del self._batches[place]
