"""The base of checkpoints of one model: a preprocessor beside it."""

from __future__ import annotations

from typing import Any, TypeVar

import heliostat as ray
from heliostat.train.checkpoint import Checkpoint

_T = TypeVar("_T", bound="FrameworkCheckpoint")
_PREPROCESSOR = "preprocessor_pkl"  # in the checkpoint's metadata, as hexadecimal digits


class FrameworkCheckpoint(Checkpoint):
    """A checkpoint that may hold the preprocessor that its model's inputs go through."""

    @classmethod
    def _with_preprocessor(cls: type[_T], folder: str, preprocessor: Any) -> _T:
        """Return the checkpoint of a folder, with a preprocessor if there is one."""
        made = cls(folder)
        if preprocessor is not None:
            made.set_preprocessor(preprocessor)
        return made

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
