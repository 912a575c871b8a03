"""PyTorch: ``TorchTrainer`` and what a training function needs to be distributed.

torch itself is imported on the workers only, so a driver script starts without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from heliostat.train import lazy

if TYPE_CHECKING:
    from heliostat.train.torch.checkpoint import TorchCheckpoint
    from heliostat.train.torch.config import FaultTolerantConfig, TorchConfig, TorchftConfig
    from heliostat.train.torch.deprecated import accelerate, backward, prepare_optimizer
    from heliostat.train.torch.device import get_device, get_devices
    from heliostat.train.torch.loader import prepare_data_loader
    from heliostat.train.torch.model import prepare_model
    from heliostat.train.torch.replica.run import FaultTolerantRun, fault_tolerant
    from heliostat.train.torch.reproducibility import enable_reproducibility
    from heliostat.train.torch.resume.load import load_checkpoint
    from heliostat.train.torch.resume.run import ResumableRun, resumable
    from heliostat.train.torch.trainer import TorchTrainer

_HOME = {
    "FaultTolerantConfig": "config",
    "FaultTolerantRun": "replica.run",
    "ResumableRun": "resume.run",
    "TorchCheckpoint": "checkpoint",
    "TorchConfig": "config",
    "TorchTrainer": "trainer",
    "TorchftConfig": "config",
    "accelerate": "deprecated",
    "backward": "deprecated",
    "enable_reproducibility": "reproducibility",
    "fault_tolerant": "replica.run",
    "get_device": "device",
    "get_devices": "device",
    "load_checkpoint": "resume.load",
    "prepare_data_loader": "loader",
    "prepare_model": "model",
    "prepare_optimizer": "deprecated",
    "resumable": "resume.run",
}

__all__ = [
    "FaultTolerantConfig",
    "FaultTolerantRun",
    "ResumableRun",
    "TorchCheckpoint",
    "TorchConfig",
    "TorchTrainer",
    "TorchftConfig",
    "accelerate",
    "backward",
    "enable_reproducibility",
    "fault_tolerant",
    "get_device",
    "get_devices",
    "load_checkpoint",
    "prepare_data_loader",
    "prepare_model",
    "prepare_optimizer",
    "resumable",
]

__getattr__, __dir__ = lazy.names(__name__, _HOME)
