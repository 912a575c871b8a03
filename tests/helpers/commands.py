"""Commands that tests run: they read nothing, and all that they print is one text."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

CLI = os.environ.get("RAY_CLI", str(Path(sys.executable).parent / "ray"))


def ran(
    command: Sequence[str | Path],
    *,
    env: Mapping[str, str],
    within: float = 60,
    cwd: Path | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, whatever its exit code; ``within`` is a deadline against a hang."""
    return subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=env,
        cwd=cwd,
        timeout=within,
        check=False,
    )
