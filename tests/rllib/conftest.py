"""What the tests of reinforcement learning share."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="modules are torch's")
pytest.importorskip("gymnasium", reason="environments are gymnasium's")
