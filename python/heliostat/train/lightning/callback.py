"""Reporting from Lightning."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from typing import Any

from heliostat.train.checkpoint import Checkpoint
from heliostat.train.context import get_context
from heliostat.train.lightning.library import pl
from heliostat.train.reported import CheckpointUploadMode, report
from heliostat.train.validation import ValidationTaskConfig


class RayTrainReportCallback(pl.callbacks.Callback):  # type: ignore[misc] # without types
    """Reports the metrics and a checkpoint (``checkpoint.ckpt``) after each training epoch.

    Args:
        checkpoint_upload_mode: See ``heliostat.train.CheckpointUploadMode``. Default SYNC.
        validation: See ``heliostat.train.report``. Default False.

    Examples:
        >>> import lightning
        >>> from ray.train.lightning import RayTrainReportCallback
        >>> def make_trainer():
        ...     return lightning.Trainer(
        ...         max_epochs=2,
        ...         callbacks=[RayTrainReportCallback()],
        ...         enable_checkpointing=False,  # the callback saves
        ...     )

        Of the result of ``fit()``, ``result.checkpoint`` has the file ``checkpoint.ckpt``:
        ``Model.load_from_checkpoint(f"{folder}/{RayTrainReportCallback.CHECKPOINT_NAME}")``.
    """

    CHECKPOINT_NAME = "checkpoint.ckpt"

    def __init__(
        self,
        checkpoint_upload_mode: CheckpointUploadMode | None = None,
        validation: bool | ValidationTaskConfig = False,
    ) -> None:
        super().__init__()
        self._validation = validation
        self._mode = checkpoint_upload_mode or CheckpointUploadMode.SYNC

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Called by Lightning: saves and reports.

        Args:
            trainer: The ``Trainer``.
            pl_module: The module.
        """
        context = get_context()
        # One folder for all ranks of the node: a sharded checkpoint is written by all of them.
        storage = context.get_storage()
        key = f"{storage.path if storage else ''}|{os.getuid()}"
        run = hashlib.sha1(key.encode()).hexdigest()[:12]
        name = f"lightning-{run}-{trainer.current_epoch}-{trainer.global_step}"
        folder = os.path.join(tempfile.gettempdir(), name)
        os.makedirs(folder, exist_ok=True)
        metrics = {k: _number(v) for k, v in trainer.callback_metrics.items()}
        metrics.update(epoch=trainer.current_epoch, step=trainer.global_step)
        trainer.save_checkpoint(os.path.join(folder, self.CHECKPOINT_NAME), weights_only=False)
        trainer.strategy.barrier()
        first = context.get_local_rank() == 0
        report(
            metrics,
            checkpoint=Checkpoint.from_directory(folder) if first else None,
            checkpoint_upload_mode=self._mode,
            validation=self._validation if first else False,
        )
        if first and self._mode is CheckpointUploadMode.SYNC:
            shutil.rmtree(folder, ignore_errors=True)


def _number(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value
