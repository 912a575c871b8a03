"""The examples of serving run to their end and say what they promise."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.harness import free_port

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.slow
@pytest.mark.contract("F12.03", "F12.04", "F12.05")
@pytest.mark.heliostat_only("the examples import heliostat")
def test_a_transformer_is_served(run_driver: Any) -> None:
    pytest.importorskip("transformers")
    done = run_driver(
        EXAMPLES / "serving.py",
        args=["--port", str(free_port())],
        env={"OMP_NUM_THREADS": "1", "RAY_DEDUP_LOGS": "0"},
    ).check()
    assert "streamed: ['one', 'two', 'three']" in done.stdout, done.report()
    assert re.search(r'one answer: {"text":"hello","label":[012]}', done.stdout), done.report()
    [most] = re.findall(r"largest batch: (\d+)", done.stdout)
    assert 1 < int(most) <= 8


@pytest.mark.slow
@pytest.mark.contract("F12.06")
@pytest.mark.heliostat_only("the examples import heliostat")
def test_replicas_follow_the_load_and_are_drawn(run_driver: Any, tmp_path: Path) -> None:
    drawn = tmp_path / "drawn.svg"
    done = run_driver(
        EXAMPLES / "autoscaling.py",
        args=["--port", str(free_port()), "--seconds", "12", "--picture", str(drawn)],
    ).check()
    [most] = re.findall(r"most replicas: (\d+)", done.stdout)
    assert 2 < int(most) <= 10, done.report()
    assert "24 callers" in done.stdout
    picture = ElementTree.fromstring(drawn.read_text())
    assert len(picture.findall("{*}path[@stroke-width]")) == 4
