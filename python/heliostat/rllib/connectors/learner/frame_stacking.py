"""The last frames as one observation, in a learner's pipeline."""

from __future__ import annotations

from functools import partial

from heliostat.rllib.connectors.common.frame_stacking import FrameStacking

FrameStackingLearner = partial(FrameStacking, as_learner_connector=True)
