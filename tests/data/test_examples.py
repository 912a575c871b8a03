"""The examples that use datasets run as they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.contract("F10.03", "F10.15", "F10.18", "F10.24", "F9.07", "F9.18")
@pytest.mark.heliostat_only("the example imports heliostat")
def test_data_for_training(run_driver: Any) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("sklearn")
    env = {"OMP_NUM_THREADS": "1", "HELIOSTAT_TRAIN_VIEW": "off"}
    ended = run_driver(EXAMPLES / "data_for_training.py", env=env).check()
    assert float(ended.value("accuracy")) >= 0.9
    assert ended.value("rows") == "718 of 718 a worker and epoch"
