"""``DataParallelTrainer`` where Ray has it."""

from heliostat.train.data_parallel_trainer import DataParallelTrainer

__all__ = ["DataParallelTrainer"]
