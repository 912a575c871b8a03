"""Reporting from Transformers."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from heliostat.core.platform.extras import required
from heliostat.train.checkpoint import Checkpoint
from heliostat.train.context import get_context
from heliostat.train.reported import report

_transformers: Any = required("transformers", "Reports from Transformers")
_trainer_utils: Any = required("transformers.trainer_utils", "Reports from Transformers")


class RayTrainReportCallback(_transformers.TrainerCallback):  # type: ignore[misc] # without types
    """Reports the latest metrics and the checkpoint whenever the trainer saves one.

    The saved folder lies below ``checkpoint`` in the reported checkpoint. Set ``save_strategy``,
    and the same for evaluation and logging, in ``TrainingArguments``.

    Examples:
        >>> from ray.train.huggingface.transformers import RayTrainReportCallback
        >>> def work():
        ...     import transformers
        ...     args = transformers.TrainingArguments(
        ...         output_dir="out", save_strategy="epoch", logging_strategy="epoch"
        ...     )
        ...     model = transformers.AutoModelForSequenceClassification.from_pretrained("my/model")
        ...     trainer = transformers.Trainer(model=model, args=args)
        ...     trainer.add_callback(RayTrainReportCallback())
        ...     trainer.train()
        >>> RayTrainReportCallback.CHECKPOINT_NAME  # the model is in this folder of the checkpoint
        'checkpoint'
    """

    CHECKPOINT_NAME = "checkpoint"

    def __init__(self) -> None:
        super().__init__()
        self._metrics: dict[str, Any] = {}

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Called by the trainer on every rank: reports the checkpoint.

        Args:
            args: The training arguments.
            state: The trainer's state.
            control: The trainer's control.
        """
        metrics: dict[str, Any] = {}
        for entry in state.log_history:
            metrics.update(entry)
        checkpoint = None
        with tempfile.TemporaryDirectory() as folder:
            # Rank 0 saves; with sharded optimizers every node has files of its own.
            if get_context().get_local_rank() == 0:
                saved = _trainer_utils.get_last_checkpoint(args.output_dir)
                if saved is not None:
                    _link_tree(Path(saved), Path(folder, self.CHECKPOINT_NAME))
                    checkpoint = Checkpoint.from_directory(folder)
            report(metrics, checkpoint=checkpoint)


def _link_tree(source: Path, target: Path) -> None:
    """The same files under another folder, without copying them a second time."""
    import shutil

    def link(old: str, new: str) -> str:
        try:
            os.link(old, new)
        except OSError:
            shutil.copyfile(old, new)
        return new

    shutil.copytree(source, target, copy_function=link)
