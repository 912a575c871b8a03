"""Stand-ins for clients of databases, queues and services, which tests have no servers of.

A module of tests that uses them says ``CLUSTER = clients.cluster()`` and takes the fixture ``service``.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = Path(tempfile.gettempdir()) / f"clients-{os.getpid()}"


def cluster(**options: Any) -> dict[str, Any]:
    """Options of a cluster whose workers find the stand-ins."""
    path = os.pathsep.join(filter(None, [str(HERE), os.environ.get("PYTHONPATH")]))
    return {
        "num_cpus": 4,
        "runtime_env": {"env_vars": {"PYTHONPATH": path, "CLIENTS_ROOT": str(ROOT)}},
        **options,
    }


@contextlib.contextmanager
def found() -> Iterator[Any]:
    """This process finds the stand-ins, too, which know of nothing; gives their state."""
    shutil.rmtree(ROOT, ignore_errors=True)
    ROOT.mkdir()
    before, there = list(sys.path), set(sys.modules)
    sys.path.insert(0, str(HERE))
    os.environ["CLIENTS_ROOT"] = str(ROOT)
    try:
        import client_state

        yield client_state
    finally:
        del os.environ["CLIENTS_ROOT"]
        sys.path[:] = before
        for name in set(sys.modules) - there:
            if str(getattr(sys.modules[name], "__file__", None)).startswith(str(HERE)):
                del sys.modules[name]
        shutil.rmtree(ROOT, ignore_errors=True)
