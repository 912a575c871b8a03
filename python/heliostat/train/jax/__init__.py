"""JAX on a group of workers, which see all devices of the group as one set.

jax is imported on the workers alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from heliostat.train import lazy

if TYPE_CHECKING:
    from heliostat.train.jax.config import JaxConfig
    from heliostat.train.jax.trainer import JaxTrainer

_HOME = {"JaxConfig": "config", "JaxTrainer": "trainer"}

__all__ = ["JaxConfig", "JaxTrainer"]

__getattr__, __dir__ = lazy.names(__name__, _HOME)
