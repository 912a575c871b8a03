"""The page on compatibility says what the tests and the lists of the contract say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.harness import IS_HELIOSTAT

SCRIPT = Path(__file__).parents[1] / "differential" / "compatibility.py"


@pytest.mark.skipif(not IS_HELIOSTAT, reason="the page is about Heliostat")
def test_the_page_is_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
