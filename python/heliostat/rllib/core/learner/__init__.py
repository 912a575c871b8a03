"""Learners: what turns samples into better weights."""

from __future__ import annotations

from heliostat.rllib.core.learner.learner import Learner
from heliostat.rllib.core.learner.learner_group import LearnerGroup

__all__ = ["Learner", "LearnerGroup"]
