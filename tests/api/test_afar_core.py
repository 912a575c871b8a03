"""Tests of the API a second time, as drivers outside the cluster; `make afar` runs all that can be."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers import harness

pytestmark = [
    pytest.mark.heliostat_only("Ray's client is another program than its driver"),
    pytest.mark.skipif(bool(os.environ.get("TESTS_AFAR")), reason="these tests are such drivers"),
]


@pytest.mark.contract("F8.01")
@pytest.mark.parametrize("tests", ["test_tasks.py", "test_generators.py", "test_actor_names.py"])
def test_the_core_works_from_outside_the_cluster(tests: str) -> None:
    run = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0", "-rs"]
    done = subprocess.run(
        [*run, str(Path(__file__).with_name(tests))],
        capture_output=True,
        text=True,
        env=harness.clean_env({"TESTS_AFAR": "1"}),
        timeout=580,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    assert " passed" in done.stdout
