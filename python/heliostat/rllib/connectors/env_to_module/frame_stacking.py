"""The last frames as one observation, in a runner's pipeline."""

from __future__ import annotations

from functools import partial

from heliostat.rllib.connectors.common.frame_stacking import FrameStacking

FrameStackingEnvToModule = partial(FrameStacking, as_learner_connector=False)
