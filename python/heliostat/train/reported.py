"""`report` and the checkpoints that were reported."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from heliostat.train.arguments import check_folder_name
from heliostat.train.context import current_session
from heliostat.train.steps.clock import reporting

if TYPE_CHECKING:
    from heliostat.train.checkpoint import Checkpoint
    from heliostat.train.validation import ValidationTaskConfig


class CheckpointUploadMode(Enum):
    """The way in which `report` brings a checkpoint into the storage of the run.

    Examples:
        >>> import pathlib, tempfile
        >>> from ray import train
        >>> from ray.train import Checkpoint, CheckpointUploadMode, DataParallelTrainer, ScalingConfig
        >>> def work():
        ...     folder = tempfile.mkdtemp()
        ...     _ = pathlib.Path(folder, "epoch.txt").write_text("0")
        ...     train.report(
        ...         {"epoch": 0},
        ...         checkpoint=Checkpoint.from_directory(folder),
        ...         checkpoint_upload_mode=CheckpointUploadMode.ASYNC,  # the training goes on meanwhile
        ...     )
        >>> result = DataParallelTrainer(work, scaling_config=ScalingConfig(num_workers=0)).fit()
        >>> with result.checkpoint.as_directory() as folder:
        ...     pathlib.Path(folder, "epoch.txt").read_text()
        '0'
    """

    #: In the calling thread; `report` returns when the checkpoint is published.
    SYNC = "SYNC"
    #: In a thread of its own; `report` returns at once and the folder must stay until then.
    ASYNC = "ASYNC"
    #: Not at all: the checkpoint lies in the storage already.
    NO_UPLOAD = "NO_UPLOAD"


class CheckpointConsistencyMode(Enum):
    """The state of checkpoints that `get_all_reported_checkpoints` waits for.

    Examples:
        >>> from ray import train
        >>> from ray.train import CheckpointConsistencyMode, DataParallelTrainer, ScalingConfig
        >>> def work():
        ...     return train.get_all_reported_checkpoints(CheckpointConsistencyMode.COMMITTED)
        >>> DataParallelTrainer(work, scaling_config=ScalingConfig(num_workers=0)).fit().return_value
        []
    """

    #: Everything that this worker has reported is published.
    COMMITTED = "COMMITTED"
    #: ... and validated.
    VALIDATED = "VALIDATED"


class ReportedCheckpointStatus(Enum):
    """The state of a reported checkpoint.

    Examples:
        >>> import tempfile
        >>> from ray import train
        >>> from ray.train import Checkpoint, DataParallelTrainer, ReportedCheckpointStatus, ScalingConfig
        >>> def work():
        ...     train.report({"loss": 1.0}, checkpoint=Checkpoint.from_directory(tempfile.mkdtemp()))
        ...     reported = train.get_all_reported_checkpoints()[0]
        ...     return reported.status is ReportedCheckpointStatus.COMMITTED
        >>> DataParallelTrainer(work, scaling_config=ScalingConfig(num_workers=0)).fit().return_value
        True
    """

    COMMITTED = "COMMITTED"
    PENDING_VALIDATION = "PENDING_VALIDATION"
    VALIDATED = "VALIDATED"
    VALIDATION_TIMEOUT = "VALIDATION_TIMEOUT"
    VALIDATION_FAILED = "VALIDATION_FAILED"


@dataclass
class ReportedCheckpoint:
    """A checkpoint of the run with the metrics that were reported with it.

    Attributes:
        checkpoint: The checkpoint.
        metrics: The metrics of rank 0.
        status: Whether it is complete. Default: it is.

    Examples:
        >>> import tempfile
        >>> from ray import train
        >>> from ray.train import Checkpoint, DataParallelTrainer, ScalingConfig
        >>> def work():
        ...     for epoch in range(2):
        ...         checkpoint = Checkpoint.from_directory(tempfile.mkdtemp())
        ...         train.report({"epoch": epoch}, checkpoint=checkpoint)
        ...     return [reported.metrics["epoch"] for reported in train.get_all_reported_checkpoints()]
        >>> DataParallelTrainer(work, scaling_config=ScalingConfig(num_workers=0)).fit().return_value
        [0, 1]
    """

    checkpoint: Checkpoint
    metrics: dict[str, Any]
    status: ReportedCheckpointStatus = ReportedCheckpointStatus.COMMITTED


def report(
    metrics: dict[str, Any],
    checkpoint: Checkpoint | None = None,
    checkpoint_dir_name: str | None = None,
    checkpoint_upload_mode: CheckpointUploadMode = CheckpointUploadMode.SYNC,
    delete_local_checkpoint_after_upload: bool | None = None,
    checkpoint_upload_fn: Callable[[Checkpoint, str], Checkpoint] | None = None,
    validation: bool | ValidationTaskConfig = False,
) -> None:
    """Report metrics, and optionally a checkpoint; waits until all workers have reported.

    Rank 0's metrics are kept. Files that several ranks report are merged into one folder. A worker
    whose training function has returned is not waited for. When the call returns, the checkpoint
    (unless uploaded asynchronously) is published, and a restart will begin from it.

    Args:
        metrics: Numbers, strings, or lists and dicts of them; numpy values are converted.
        checkpoint: The folder to keep, or None.
        checkpoint_dir_name: Name of its folder in the run; the same on every rank. Default:
            ``checkpoint_<date and time>``.
        checkpoint_upload_mode: See ``CheckpointUploadMode``. Default SYNC.
        delete_local_checkpoint_after_upload: Remove (or move) the local folder. Default: only with
            ASYNC.
        checkpoint_upload_fn: ``fn(checkpoint, name) -> Checkpoint`` that uploads in its own way
            and returns where the checkpoint lies.
        validation: Validate the checkpoint in a task of its own, with the trainer's
            ``ValidationConfig``; a ``ValidationTaskConfig`` overrides its defaults.

    Raises:
        RuntimeError: Not called in a training function.
        ValueError: The metrics cannot be stored, ``checkpoint`` is none, or the options contradict
            each other.
        MissingRankError: Some rank did not call `report` in time; the text names it.

    Examples:
        >>> import pathlib, tempfile
        >>> from ray import train
        >>> from ray.train import Checkpoint, DataParallelTrainer, RunConfig, ScalingConfig
        >>> def work():
        ...     for epoch in range(2):
        ...         with tempfile.TemporaryDirectory() as folder:
        ...             _ = pathlib.Path(folder, "epoch.txt").write_text(str(epoch))
        ...             saved = Checkpoint.from_directory(folder)
        ...             train.report({"epoch": epoch}, checkpoint=saved)
        >>> result = DataParallelTrainer(
        ...     work,
        ...     scaling_config=ScalingConfig(num_workers=1),
        ...     run_config=RunConfig(name="two_epochs"),
        ... ).fit()
        >>> result.metrics
        {'epoch': 1}
        >>> with result.checkpoint.as_directory() as folder:
        ...     pathlib.Path(folder, "epoch.txt").read_text()
        '1'
    """
    if validation and checkpoint is None:
        raise ValueError("report(validation=...) needs a checkpoint to validate.")
    if checkpoint is not None and not hasattr(checkpoint, "as_directory"):
        raise ValueError(
            f"report(checkpoint={checkpoint!r}) takes a Checkpoint: "
            "ray.train.Checkpoint.from_directory(folder)."
        )
    if not isinstance(checkpoint_upload_mode, CheckpointUploadMode):
        raise ValueError(
            f"checkpoint_upload_mode={checkpoint_upload_mode!r} must be one of "
            f"{', '.join(map(str, CheckpointUploadMode))}."
        )
    if checkpoint_upload_fn is not None and not callable(checkpoint_upload_fn):
        raise ValueError(
            f"checkpoint_upload_fn={checkpoint_upload_fn!r} must be a function of the checkpoint and "
            "the name of its folder."
        )
    if checkpoint_dir_name is not None:
        check_folder_name("checkpoint_dir_name", checkpoint_dir_name)
        if checkpoint_dir_name.startswith(".") or checkpoint_dir_name.endswith((".json", ".html")):
            raise ValueError(
                f"checkpoint_dir_name={checkpoint_dir_name!r} may be the name of a file of the run: "
                "choose one that neither begins with '.' nor ends with '.json' or '.html'."
            )
    session = current_session("report")
    with reporting():
        session.report(
            metrics,
            checkpoint,
            dir_name=checkpoint_dir_name,
            mode=checkpoint_upload_mode,
            delete=delete_local_checkpoint_after_upload,
            upload_fn=checkpoint_upload_fn,
            validation=validation,
        )


def get_all_reported_checkpoints(
    consistency_mode: CheckpointConsistencyMode = CheckpointConsistencyMode.VALIDATED,
    timeout_s: float | None = None,
) -> list[ReportedCheckpoint]:
    """Return the kept checkpoints of the run, oldest first.

    Args:
        consistency_mode: What to wait for: VALIDATED (default) or COMMITTED.
        timeout_s: Stop waiting after so many seconds, and return how things are then.
            Default None: wait.

    Examples:
        >>> import pathlib, tempfile
        >>> from ray import train
        >>> from ray.train import Checkpoint, DataParallelTrainer, ScalingConfig
        >>> def work():
        ...     for epoch in range(2):
        ...         with tempfile.TemporaryDirectory() as folder:
        ...             _ = pathlib.Path(folder, "epoch.txt").write_text(str(epoch))
        ...             train.report({"epoch": epoch}, checkpoint=Checkpoint.from_directory(folder))
        ...     return [kept.metrics for kept in train.get_all_reported_checkpoints()]
        >>> DataParallelTrainer(work, scaling_config=ScalingConfig(num_workers=0)).fit().return_value
        [{'epoch': 0}, {'epoch': 1}]
    """
    session = current_session("get_all_reported_checkpoints")
    validated = consistency_mode is CheckpointConsistencyMode.VALIDATED
    return session.reported(validated, timeout_s)
