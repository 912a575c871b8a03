"""A cluster that the test process is no part of: it reaches the port for drivers of its head alone.

With ``TESTS_AFAR=1`` the shared cluster of the tests is such a one, so that the tests of the API run a
second time, as drivers on a laptop would.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.helpers import harness

IS_WANTED = bool(os.environ.get("TESTS_AFAR"))

HELIOSTAT = Path(sys.executable).with_name("heliostat")
# Options of `init` that are the head's here.
OF_THE_HEAD = ("num_cpus", "num_gpus", "resources", "object_store_memory", "labels", "_memory")


class AfarCluster:
    """A head of its own, which ends with :meth:`stop`."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="afar"))
        self.token = secrets.token_hex(32)
        self.environment = {
            **harness.clean_env(),
            "RAY_TMPDIR": str(self.folder),
            "HOME": str(self.folder),
            "HELIOSTAT_AUTH_TOKEN": self.token,
        }
        flags = ["--port=0", "--ray-client-server-port=0", "--include-dashboard=false"]
        for name, value in options.items():
            text = json.dumps(value) if isinstance(value, Mapping) else f"{value}"
            flags.append(f"--{name.lstrip('_').replace('_', '-')}={text}")
        start = [str(HELIOSTAT), "start", "--head", *flags]
        done = subprocess.run(
            start, capture_output=True, text=True, env=self.environment, timeout=120
        )
        found = re.search(r'ray\.init\("(ray://[^"]+)"\)', done.stdout)
        if found is None:
            self.stop()
            raise AssertionError(done.stdout + done.stderr)
        self.address = found[1]

    def stop(self) -> None:
        stop = [str(HELIOSTAT), "stop", "--force"]
        subprocess.run(stop, env=self.environment, timeout=120, check=True, capture_output=True)
        shutil.rmtree(self.folder, ignore_errors=True)
