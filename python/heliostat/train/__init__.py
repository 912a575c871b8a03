"""Distributed training: one function on many workers, watched, recovered, checkpointed.

Names are exported lazily, so importing this package costs next to nothing and pulls in neither
torch nor pyarrow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from heliostat.train import lazy

if TYPE_CHECKING:
    from heliostat.train.backend import BackendConfig
    from heliostat.train.callbacks import UserCallback
    from heliostat.train.checkpoint import Checkpoint
    from heliostat.train.config import (
        CheckpointConfig,
        FailureConfig,
        LoggingConfig,
        RunConfig,
        ScalingConfig,
        SyncConfig,
    )
    from heliostat.train.context import (
        TrainContext,
        get_checkpoint,
        get_context,
        get_dataset_shard,
    )
    from heliostat.train.data_config import DataConfig
    from heliostat.train.data_parallel_trainer import DataParallelTrainer
    from heliostat.train.errors import (
        ControllerError,
        MissingRankError,
        TrainingFailedError,
        WorkerDiedError,
        WorkerGroupError,
        WorkerStartError,
    )
    from heliostat.train.preemption import (
        NCCLHangError,
        PreemptionError,
        PreemptionInfo,
        get_preemption_info,
    )
    from heliostat.train.reported import (
        CheckpointConsistencyMode,
        CheckpointUploadMode,
        ReportedCheckpoint,
        ReportedCheckpointStatus,
        get_all_reported_checkpoints,
        report,
    )
    from heliostat.train.result import Result
    from heliostat.train.validation import ValidationConfig, ValidationFn, ValidationTaskConfig
    from heliostat.train.world_size import on_world_size_change

TRAIN_DATASET_KEY = "train"

_HOME = {
    "BackendConfig": "backend",
    "UserCallback": "callbacks",
    "Checkpoint": "checkpoint",
    "CheckpointConfig": "config",
    "FailureConfig": "config",
    "LoggingConfig": "config",
    "RunConfig": "config",
    "ScalingConfig": "config",
    "SyncConfig": "config",
    "TrainContext": "context",
    "get_checkpoint": "context",
    "get_context": "context",
    "get_dataset_shard": "context",
    "DataConfig": "data_config",
    "DataParallelTrainer": "data_parallel_trainer",
    "ControllerError": "errors",
    "MissingRankError": "errors",
    "TrainingFailedError": "errors",
    "WorkerDiedError": "errors",
    "WorkerGroupError": "errors",
    "WorkerStartError": "errors",
    "NCCLHangError": "preemption",
    "PreemptionError": "preemption",
    "PreemptionInfo": "preemption",
    "get_preemption_info": "preemption",
    "CheckpointConsistencyMode": "reported",
    "CheckpointUploadMode": "reported",
    "ReportedCheckpoint": "reported",
    "ReportedCheckpointStatus": "reported",
    "get_all_reported_checkpoints": "reported",
    "report": "reported",
    "Result": "result",
    "ValidationConfig": "validation",
    "ValidationFn": "validation",
    "ValidationTaskConfig": "validation",
    "on_world_size_change": "world_size",
}

# `train.torch.prepare_model` works after `from ray import train` alone.
_PACKAGES = ("collective", "huggingface", "jax", "lightgbm", "lightning", "torch", "xgboost")

__all__ = [
    # configuration
    "BackendConfig",
    "CheckpointConfig",
    "DataConfig",
    "FailureConfig",
    "LoggingConfig",
    "RunConfig",
    "ScalingConfig",
    "SyncConfig",
    "TRAIN_DATASET_KEY",
    "ValidationConfig",
    "ValidationFn",
    "ValidationTaskConfig",
    # trainers and results
    "DataParallelTrainer",
    "Result",
    "UserCallback",
    # in the training function
    "Checkpoint",
    "CheckpointConsistencyMode",
    "CheckpointUploadMode",
    "ReportedCheckpoint",
    "ReportedCheckpointStatus",
    "TrainContext",
    "get_all_reported_checkpoints",
    "get_checkpoint",
    "get_context",
    "get_dataset_shard",
    "get_preemption_info",
    "on_world_size_change",
    "report",
    "PreemptionInfo",
    # errors
    "ControllerError",
    "MissingRankError",
    "NCCLHangError",
    "PreemptionError",
    "TrainingFailedError",
    "WorkerDiedError",
    "WorkerGroupError",
    "WorkerStartError",
]


__getattr__, __dir__ = lazy.names(__name__, _HOME, _PACKAGES)
