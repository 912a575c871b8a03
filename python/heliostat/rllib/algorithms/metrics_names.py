"""Names under which results have the metrics of runners, learners and evaluation."""

from __future__ import annotations

ENV_RUNNERS = "env_runners"
EVALUATION = "evaluation"
LEARNERS = "learners"
TIMERS = "timers"
