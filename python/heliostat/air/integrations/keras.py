"""Reporting from Keras, where Ray has it, too."""

from heliostat.train.tensorflow.keras import ReportCheckpointCallback

__all__ = ["ReportCheckpointCallback"]
