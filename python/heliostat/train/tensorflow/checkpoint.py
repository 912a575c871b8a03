"""A checkpoint that is one model of Keras."""

from __future__ import annotations

import os
import tempfile
from typing import Any

from heliostat.core.extras import required
from heliostat.train.checkpoint import Checkpoint


class TensorflowCheckpoint(Checkpoint):
    """A checkpoint whose file ``model.keras`` holds a model of Keras.

    Nothing needs it: ``model.save`` into a folder and ``Checkpoint.from_directory`` do the same.
    """

    MODEL_FILENAME = "model.keras"

    @classmethod
    def from_model(cls, model: Any) -> TensorflowCheckpoint:
        """Save a model of Keras into a new folder below the system's temporary one."""
        folder = tempfile.mkdtemp(prefix="checkpoint_")
        model.save(os.path.join(folder, cls.MODEL_FILENAME))
        return cls(folder)

    def get_model(self) -> Any:
        """Load the model.

        Raises:
            ImportError: TensorFlow is not installed.
            RuntimeError: There is no ``model.keras`` in the checkpoint.
        """
        tf = required("tensorflow", "TensorflowCheckpoint")
        with self.as_directory() as folder:
            path = os.path.join(folder, self.MODEL_FILENAME)
            if not os.path.exists(path):
                raise RuntimeError(
                    f"There is no {self.MODEL_FILENAME} in {self.path}: this is no checkpoint of "
                    "TensorflowCheckpoint.from_model or ReportCheckpointCallback."
                )
            return tf.keras.models.load_model(path)
