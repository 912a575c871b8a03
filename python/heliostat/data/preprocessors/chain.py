"""Chain where Ray has them."""

from __future__ import annotations

from heliostat.data.preprocessors.base import Chain

__all__ = ["Chain"]
