"""``JaxTrainer`` and ``JaxConfig`` where Ray has them."""

from heliostat.train.jax.config import JaxConfig
from heliostat.train.jax.trainer import JaxTrainer

__all__ = ["JaxConfig", "JaxTrainer"]
