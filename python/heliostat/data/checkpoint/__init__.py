"""Writes that go on where an earlier program ended: rows whose ids were written are left out.

``DataContext.get_current().checkpoint_config = CheckpointConfig(id_column="id", checkpoint_path=...)``
before the dataset is made; then the program is run again as it is.
"""

from heliostat.data.checkpoint.checkpoint_filter import (
    CheckpointFilter,
    CheckpointManager,
    IdColumnCheckpointManager,
    NumpyArrayBasedCheckpointFilter,
)
from heliostat.data.checkpoint.interfaces import CheckpointBackend, CheckpointConfig

__all__ = [
    "CheckpointBackend",
    "CheckpointConfig",
    "CheckpointFilter",
    "CheckpointManager",
    "IdColumnCheckpointManager",
    "NumpyArrayBasedCheckpointFilter",
]
