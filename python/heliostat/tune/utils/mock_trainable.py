"""A trainable that costs nothing, for trying out schedulers and searchers."""

from __future__ import annotations

import json
import math
import time
from pathlib import Path

from heliostat.tune.aliases import Config, Report
from heliostat.tune.registry import register_trainable
from heliostat.tune.trainable.trainable import Trainable

MOCK_TRAINABLE_NAME = "mock_trainable"
MOCK_ERROR_KEY = "mock_error"
_FILE = "checkpoint"


class MyTrainableClass(Trainable):
    """Reports ``episode_reward_mean``, which rises as ``height * tanh(step / width)``.

    Of its config it reads ``width`` and ``height`` (1 each), ``sleep`` (seconds a step, 0), and
    ``mock_error``: raise at the second step; ``persistent_error``: also after a restore.
    """

    def setup(self, config: Config) -> None:
        """Begin at step 0."""
        self.timestep, self.restored = 0, False

    def step(self) -> Report:
        """Make a step along the curve."""
        config = self.config
        fails = config.get("mock_error", False) and self.timestep > 0
        if fails and (config.get("persistent_error", False) or not self.restored):
            raise RuntimeError(f"mock_error: raised at step {self.timestep}")
        time.sleep(config.get("sleep", 0))
        self.timestep += 1
        reward = config.get("height", 1) * math.tanh(self.timestep / config.get("width", 1))
        return {"episode_reward_mean": reward}

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Write the step."""
        Path(checkpoint_dir, _FILE).write_text(json.dumps({"timestep": self.timestep}))

    def load_checkpoint(self, checkpoint_dir: str) -> None:
        """Go on at the step that was written."""
        self.timestep = json.loads(Path(checkpoint_dir, _FILE).read_text())["timestep"]
        self.restored = True


def register_mock_trainable() -> None:
    """Let searches of this process take ``MyTrainableClass`` by the name "mock_trainable"."""
    register_trainable(MOCK_TRAINABLE_NAME, MyTrainableClass)
