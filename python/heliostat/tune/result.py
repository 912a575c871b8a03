"""Names that results have without the trainable's doing."""

from __future__ import annotations

from heliostat.train.result import ADDED_BY_TUNE

DEFAULT_METRIC = "_metric"  # what a function returned
TRAINING_ITERATION = "training_iteration"
TIME_TOTAL_S = "time_total_s"
TIME_THIS_ITER_S = "time_this_iter_s"
TRIAL_ID = "trial_id"
EXPERIMENT_TAG = "experiment_tag"
DONE = "done"
SHOULD_CHECKPOINT = "should_checkpoint"  # a class trainable, or a callback, asks for a checkpoint
HOSTNAME = "hostname"
NODE_IP = "node_ip"
PID = "pid"
TIMESTEPS_TOTAL = "timesteps_total"
TIMESTEPS_THIS_ITER = "timesteps_this_iter"
EPISODES_TOTAL = "episodes_total"
EPISODES_THIS_ITER = "episodes_this_iter"
EPISODE_REWARD_MEAN = "episode_reward_mean"
MEAN_ACCURACY = "mean_accuracy"
MEAN_LOSS = "mean_loss"
CONFIG = "config"
TIMESTAMP = "timestamp"
CONFIG_PREFIX = CONFIG
TRIAL_INFO = "__trial_info__"
STDOUT_FILE, STDERR_FILE = "__stdout_file__", "__stderr_file__"
RESULT_DUPLICATE = "__duplicate__"

# Files of a trial's folder.
EXPR_PARAM_FILE, EXPR_PARAM_PICKLE_FILE = "params.json", "params.pkl"
EXPR_RESULT_FILE, EXPR_PROGRESS_FILE = "result.json", "progress.csv"
EXPR_ERROR_FILE, EXPR_ERROR_PICKLE_FILE = "error.txt", "error.pkl"
DEFAULT_EXPERIMENT_NAME = "default"

# Columns of a trial that are shown by default.
DEFAULT_EXPERIMENT_INFO_KEYS = ("trainable_name", EXPERIMENT_TAG, TRIAL_ID)
DEFAULT_RESULT_KEYS = (TRAINING_ITERATION, TIME_TOTAL_S, MEAN_ACCURACY, MEAN_LOSS)

# Keys that say where and when a result was made, and others added to each.
DEBUG_METRICS = (TRIAL_ID, "experiment_id", "date", TIMESTAMP, PID, HOSTNAME, NODE_IP, CONFIG)
AUTO_RESULT_KEYS = ADDED_BY_TUNE
