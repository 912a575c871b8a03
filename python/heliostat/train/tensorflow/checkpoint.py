"""A checkpoint that is one model of Keras."""

from __future__ import annotations

import os
import shutil
import tempfile
from typing import Any

from heliostat.core.platform.extras import required
from heliostat.train.framework_checkpoint import FrameworkCheckpoint


class TensorflowCheckpoint(FrameworkCheckpoint):
    """A checkpoint that holds a model of Keras.

    Nothing needs it: ``model.save`` into a folder and ``Checkpoint.from_directory`` do the same.

    Examples:
        >>> from ray import train
        >>> from ray.train.tensorflow import TensorflowCheckpoint
        >>> def report(model, loss):  # in a training function
        ...     train.report({"loss": loss}, checkpoint=TensorflowCheckpoint.from_model(model))
        >>> def load(result):
        ...     return TensorflowCheckpoint(result.checkpoint.path).get_model()
    """

    MODEL_FILENAME = "model.keras"
    # The key of the model's file in the metadata; "." where the whole folder is the model.
    MODEL_FILENAME_KEY = "_model_filename"

    @classmethod
    def from_model(cls, model: Any, *, preprocessor: Any = None) -> TensorflowCheckpoint:
        """Save a model of Keras into a new folder below the system's temporary one.

        Args:
            model: The model.
            preprocessor: A fitted preprocessor that the model's inputs go through.

        Returns:
            The checkpoint.
        """
        folder = tempfile.mkdtemp(prefix="checkpoint_")
        model.save(os.path.join(folder, cls.MODEL_FILENAME))
        return cls._made(folder, cls.MODEL_FILENAME, preprocessor)

    @classmethod
    def from_h5(cls, file_path: str, *, preprocessor: Any = None) -> TensorflowCheckpoint:
        """Copy a model that ``model.save`` has written as a file of HDF5.

        Args:
            file_path: Its path, which ends in ``.h5``.
            preprocessor: A fitted preprocessor that the model's inputs go through.

        Returns:
            The checkpoint.

        Raises:
            ValueError: There is no such file, or its name has another end.
        """
        if not os.path.isfile(file_path) or not file_path.endswith(".h5"):
            raise ValueError(
                f"from_h5({file_path!r}) needs the path of a file whose name ends in .h5."
            )
        folder = tempfile.mkdtemp(prefix="checkpoint_")
        shutil.copy(file_path, folder)
        return cls._made(folder, os.path.basename(file_path), preprocessor)

    @classmethod
    def from_saved_model(cls, dir_path: str, *, preprocessor: Any = None) -> TensorflowCheckpoint:
        """Copy the folder of a model in TensorFlow's format SavedModel, which Keras 2 loads.

        Args:
            dir_path: The folder.
            preprocessor: A fitted preprocessor that the model's inputs go through.

        Returns:
            The checkpoint.

        Raises:
            ValueError: There is no such folder.
        """
        if not os.path.isdir(dir_path):
            raise ValueError(f"from_saved_model({dir_path!r}) needs the path of a folder.")
        folder = tempfile.mkdtemp(prefix="checkpoint_")
        shutil.copytree(dir_path, folder, dirs_exist_ok=True)
        return cls._made(folder, ".", preprocessor)

    @classmethod
    def _made(cls, folder: str, name: str, preprocessor: Any) -> TensorflowCheckpoint:
        made = cls._with_preprocessor(folder, preprocessor)
        made.update_metadata({cls.MODEL_FILENAME_KEY: name})
        return made

    def get_model(self) -> Any:
        """Load the model.

        Raises:
            ImportError: TensorFlow is not installed.
            RuntimeError: There is no model in the checkpoint.
        """
        tf = required("tensorflow", "TensorflowCheckpoint")
        name = self.get_metadata().get(self.MODEL_FILENAME_KEY, self.MODEL_FILENAME)
        with self.as_directory() as folder:
            path = os.path.normpath(os.path.join(folder, name))
            if not os.path.exists(path):
                raise RuntimeError(
                    f"There is no {name} in {self.path}: this is not a checkpoint of "
                    "TensorflowCheckpoint or ReportCheckpointCallback."
                )
            return tf.keras.models.load_model(path)
