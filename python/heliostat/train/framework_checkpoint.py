"""The base of checkpoints of one model: a preprocessor beside it."""

from __future__ import annotations

from typing import Any

import heliostat as ray
from heliostat.train.checkpoint import Checkpoint

_PREPROCESSOR = "preprocessor_pkl"  # in the checkpoint's metadata, as hexadecimal digits


class FrameworkCheckpoint(Checkpoint):
    """A checkpoint that may hold the preprocessor that its model's inputs go through."""

    def get_preprocessor(self) -> Any:
        """Return the preprocessor, None if there is none.

        It is unpickled: load a checkpoint only from where you trust.
        """
        found = self.get_metadata().get(_PREPROCESSOR)
        return None if found is None else ray.cloudpickle.loads(bytes.fromhex(found))

    def set_preprocessor(self, preprocessor: Any) -> None:
        """Keep a preprocessor with the checkpoint.

        Args:
            preprocessor: A fitted preprocessor.
        """
        self.update_metadata({_PREPROCESSOR: ray.cloudpickle.dumps(preprocessor).hex()})
