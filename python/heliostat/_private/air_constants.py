"""``ray.air.constants``: names of files, metrics and columns."""

from __future__ import annotations

from heliostat.tune.result import TIME_THIS_ITER_S, TRAINING_ITERATION

__all__ = [
    "EVALUATION_DATASET_KEY",
    "EXPR_ERROR_FILE",
    "EXPR_ERROR_PICKLE_FILE",
    "EXPR_PARAM_FILE",
    "EXPR_PARAM_PICKLE_FILE",
    "EXPR_PROGRESS_FILE",
    "EXPR_RESULT_FILE",
    "MAX_REPR_LENGTH",
    "MODEL_KEY",
    "PREPROCESSOR_KEY",
    "TENSOR_COLUMN_NAME",
    "TIMESTAMP",
    "TIME_THIS_ITER_S",
    "TRAINING_ITERATION",
    "TRAIN_DATASET_KEY",
]

# Files in a trial's folder.
EXPR_PARAM_FILE, EXPR_PARAM_PICKLE_FILE = "params.json", "params.pkl"
EXPR_RESULT_FILE, EXPR_PROGRESS_FILE = "result.json", "progress.csv"
EXPR_ERROR_FILE, EXPR_ERROR_PICKLE_FILE = "error.txt", "error.pkl"
# Keys of checkpoints of old.
MODEL_KEY, PREPROCESSOR_KEY = "model", "_preprocessor"
# Names under which trainers are given datasets.
TRAIN_DATASET_KEY, EVALUATION_DATASET_KEY = "train", "evaluation"
# The column of a dataset that was made of arrays alone, in Ray's first generation.
TENSOR_COLUMN_NAME = "__value__"
TIMESTAMP = "timestamp"  # of a report
MAX_REPR_LENGTH = 120  # characters of a repr in a table
