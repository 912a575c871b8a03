"""``TorchftConfig`` where Ray has it."""

from heliostat.train.torch.config import TorchftConfig

__all__ = ["TorchftConfig"]
