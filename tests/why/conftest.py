"""The command line that the tests of `why` ask."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.harness import clean_env

COMMAND = str(Path(sys.executable).parent / "heliostat")

Ask = Callable[..., str]


@pytest.fixture
def ask(request: pytest.FixtureRequest, ray_fresh: Callable[..., Any], tmp_path: Path) -> Ask:
    """The command on a cluster of the test's own, with as many CPUs as the module says; what it prints."""
    ray_fresh(num_cpus=getattr(request.module, "CPUS", 1), _temp_dir=str(tmp_path / "ray"))
    env = clean_env({"RAY_TMPDIR": str(tmp_path)})

    def command(which: str, fails: bool = False) -> str:
        done = subprocess.run(
            [COMMAND, "why", which],
            env=env,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (done.returncode != 0) == fails, done.stdout + done.stderr
        return (done.stderr if fails else done.stdout).strip()

    return command
