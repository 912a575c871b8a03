"""Sessions that libraries begin: a program uses them without a call of ``init``."""

from __future__ import annotations

from heliostat.core.session import begin_unless_begun

__all__ = ["begin_unless_begun"]
