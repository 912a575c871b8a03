"""Where results have what runners, learners and evaluation log."""

from __future__ import annotations

ENV_RUNNERS = "env_runners"
EVALUATION = "evaluation"
LEARNERS = "learners"
TIMERS = "timers"
