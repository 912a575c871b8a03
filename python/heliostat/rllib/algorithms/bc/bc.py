"""Imitation of recorded actions."""

from __future__ import annotations

from typing import Any, ClassVar

from heliostat.rllib.algorithms.marwil.marwil import MARWIL, MARWILConfig


class BCConfig(MARWILConfig):
    """The settings of :class:`BC`: those of MARWIL with ``beta=0``.

    Examples:
        >>> from ray.rllib.algorithms.bc import BCConfig
        >>> config = BCConfig().environment("CartPole-v1").offline_data(input_=["episodes/"])
        >>> config.beta
        0.0
    """

    own: ClassVar[dict[str, Any]] = {"beta": 0.0}
    changed: ClassVar[dict[str, Any]] = {"materialize_data": False, "materialize_mapped_data": True}

    learner_pieces: ClassVar[tuple[str, ...]] = ()

    def __init__(self, algo_class: type | None = None) -> None:
        super().__init__(algo_class=algo_class or BC)

    def validate(self) -> None:
        """Check the settings."""
        super().validate()
        if self.beta != 0.0:
            raise ValueError(f"beta={self.beta!r} must be 0 for BC: above 0 it is MARWIL.")


class BC(MARWIL):
    """Imitates recorded actions, all alike.

    Examples:
        >>> from ray.rllib.algorithms.bc import BCConfig
        >>> config = BCConfig().environment("CartPole-v1").offline_data(input_=["recorded"])
        >>> config.algo_class.__name__
        'BC'
    """

    @classmethod
    def get_default_config(cls) -> BCConfig:
        """Return the default settings."""
        return BCConfig()
