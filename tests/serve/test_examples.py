"""The example of serving runs to its end and says what it promises."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from harness import free_port

pytest.importorskip("transformers")
EXAMPLE = Path(__file__).parents[2] / "examples" / "serving.py"


@pytest.mark.slow
@pytest.mark.contract("F12.03", "F12.04", "F12.05")
@pytest.mark.heliostat_only("the examples import heliostat")
def test_a_transformer_is_served(run_driver: Any) -> None:
    done = run_driver(
        EXAMPLE,
        args=["--port", str(free_port())],
        env={"OMP_NUM_THREADS": "1", "RAY_DEDUP_LOGS": "0"},
        timeout=150,
    ).check()
    assert "streamed: ['one', 'two', 'three']" in done.stdout, done.report()
    assert re.search(r'one answer: {"text":"hello","label":[012]}', done.stdout), done.report()
    [most] = re.findall(r"largest batch: (\d+)", done.stdout)
    assert 1 < int(most) <= 8
