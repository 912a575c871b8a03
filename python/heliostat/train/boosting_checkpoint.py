"""The base of ``XGBoostCheckpoint`` and ``LightGBMCheckpoint``: a model in a folder."""

from __future__ import annotations

import os
import tempfile
import warnings
from typing import Any, ClassVar, TypeVar

from heliostat.train.framework_checkpoint import FrameworkCheckpoint

C = TypeVar("C", bound="BoostingCheckpoint")


class BoostingCheckpoint(FrameworkCheckpoint):
    """A checkpoint that holds a booster. Deprecated: save the model into a ``Checkpoint``'s folder."""

    MODEL_FILENAME: ClassVar[str]

    @classmethod
    def from_model(
        cls: type[C], booster: Any, *, preprocessor: Any = None, path: str | None = None
    ) -> C:
        """Save a booster.

        Args:
            booster: The model.
            preprocessor: A fitted preprocessor that the model's inputs go through.
            path: An empty folder for the checkpoint. Default: a temporary one.

        Returns:
            The checkpoint.

        Raises:
            ValueError: ``path`` is not a folder.
        """
        warnings.warn(
            f"{cls.__name__} is deprecated: save the model into a folder and use "
            "`ray.train.Checkpoint.from_directory`.",
            DeprecationWarning,
            stacklevel=2,
        )
        folder = path or tempfile.mkdtemp(prefix="checkpoint_")
        if not os.path.isdir(folder):
            raise ValueError(f"`path` must be a directory, but got: {folder}")
        booster.save_model(os.path.join(folder, cls.MODEL_FILENAME))
        return cls._with_preprocessor(folder, preprocessor)

    def get_model(self) -> Any:
        """Return the booster."""
        with self.as_directory() as folder:
            return self._load(os.path.join(folder, self.MODEL_FILENAME))

    @staticmethod
    def _load(path: str) -> Any:
        raise NotImplementedError
