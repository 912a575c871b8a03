"""The order of a trainer to a run: everything is checked by then."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from heliostat.train.backend import BackendConfig
    from heliostat.train.config import RunConfig, ScalingConfig
    from heliostat.train.coordinator.checkpoint_book import CheckpointBook
    from heliostat.train.data_config import DataConfig
    from heliostat.train.messages import Job
    from heliostat.train.settings import TrainSettings
    from heliostat.train.storage.base import Storage


@dataclass
class RunSpec:
    """The settings of one ``fit()``."""

    job: Job
    backend_config: BackendConfig
    scaling: ScalingConfig
    run_config: RunConfig
    datasets: dict[str, Any]
    data_config: DataConfig
    settings: TrainSettings
    storage: Storage
    book: CheckpointBook
    run_id: str
    trainer: str

    def describe(self) -> dict[str, Any]:
        """The configuration for the page of the run."""
        scaling = {k: v for k, v in vars(self.scaling).items() if v is not None and v is not False}
        failure, checkpoints = self.run_config.failure_config, self.run_config.checkpoint_config
        return {
            "trainer": self.trainer,
            "train_loop_config": self.job.config,
            "scaling_config": scaling,
            "backend": {
                "name": self.backend_config.framework or type(self.backend_config).__name__,
                **self.backend_config.to_dict(),
            },
            "failure_config": {"max_failures": failure.max_failures if failure else 0},
            "checkpoint_config": {
                k: v for k, v in vars(checkpoints).items() if v is not None and v != "DEPRECATED"
            },
            "datasets": sorted(self.datasets),
            "storage": self.storage.path,
        }
