"""Names that results have without the trainable's doing."""

from __future__ import annotations

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
