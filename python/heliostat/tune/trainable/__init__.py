"""Trainables: a function of its configuration, or a class with steps."""

from __future__ import annotations

from heliostat.tune.trainable.function_trainable import FunctionTrainable, wrap_function
from heliostat.tune.trainable.trainable import Trainable
from heliostat.tune.trainable.util import with_parameters, with_resources

__all__ = ["FunctionTrainable", "Trainable", "with_parameters", "with_resources", "wrap_function"]
