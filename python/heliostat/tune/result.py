"""Names that results have without the trainable's doing."""

from __future__ import annotations

DEFAULT_METRIC = "_metric"  # what a function returned
TRAINING_ITERATION = "training_iteration"
TIME_TOTAL_S = "time_total_s"
TIME_THIS_ITER_S = "time_this_iter_s"
TRIAL_ID = "trial_id"
EXPERIMENT_TAG = "experiment_tag"
DONE = "done"
CONFIG = "config"
