"""``prepare_trainer``."""

from __future__ import annotations

from typing import Any

from heliostat.train.lightning.environment import RayLightningEnvironment
from heliostat.train.lightning.strategies import (
    RayDDPStrategy,
    RayDeepSpeedStrategy,
    RayFSDPStrategy,
)


def prepare_trainer(trainer: Any) -> Any:
    """Check that a Lightning trainer uses the ranks and devices of the run.

    Args:
        trainer: The ``Trainer``.

    Returns:
        The same trainer.

    Raises:
        RuntimeError: Its strategy or its environment is another one.

    Examples:
        >>> import lightning
        >>> from ray.train.lightning import RayDDPStrategy, RayLightningEnvironment, prepare_trainer
        >>> def work():
        ...     trainer = lightning.Trainer(
        ...         devices="auto", strategy=RayDDPStrategy(), plugins=[RayLightningEnvironment()]
        ...     )
        ...     trainer = prepare_trainer(trainer)
        ...     ...  # trainer.fit(model, loader)
    """
    known = (RayDDPStrategy, RayFSDPStrategy, RayDeepSpeedStrategy)
    if not isinstance(trainer.strategy, known):
        raise RuntimeError(
            f"The trainer's strategy is {type(trainer.strategy).__name__}; choose one of "
            f"{', '.join(k.__name__ for k in known)}: pl.Trainer(strategy=RayDDPStrategy())."
        )
    environment = getattr(trainer.strategy, "cluster_environment", None)
    if environment is not None and not isinstance(environment, RayLightningEnvironment):
        raise RuntimeError(
            f"The trainer's environment is {type(environment).__name__}; pass "
            "pl.Trainer(plugins=[RayLightningEnvironment()])."
        )
    return trainer
