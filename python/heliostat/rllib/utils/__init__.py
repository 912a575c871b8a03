"""Utils of algorithms, and names that programs written for RLlib import from here."""

from __future__ import annotations

from heliostat.rllib.utils.annotations import DeveloperAPI, PublicAPI, override
from heliostat.rllib.utils.framework import try_import_torch
from heliostat.rllib.utils.numpy import fc, one_hot, relu, sigmoid, softmax

__all__ = [
    "DeveloperAPI",
    "PublicAPI",
    "fc",
    "one_hot",
    "override",
    "relu",
    "sigmoid",
    "softmax",
    "try_import_torch",
]
