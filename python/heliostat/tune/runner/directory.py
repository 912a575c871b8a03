"""The folders of a cluster's searches, kept by its head so that ``heliostat why`` finds their trials."""

from __future__ import annotations

import contextlib
import json
import os
import time

import heliostat as ray
from heliostat.experimental import internal_kv

# The command line reads the same namespace (helio-cli, why_trial.rs).
NAMESPACE = "_tune_searches"
# Searches that a cluster knows; the oldest go when more begin. Their files stay.
MAX_SEARCHES = 200


def announce(folder: str, prefix: str, total: int | None, limit: int) -> None:
    """Tell the head of a search that begins.

    Args:
        folder: Of the search, with its journal.
        prefix: What the ids of its trials begin with.
        total: How many trials there will be; None: unknown.
        limit: How many may run at once; 0: as many as the cluster has room for.
    """
    about = {
        "folder": os.path.abspath(folder),
        "prefix": prefix,
        "total": total,
        "limit": limit,
        "job_id": ray.get_runtime_context().get_job_id(),
    }
    # The search is worth more than what is told of it.
    with contextlib.suppress(ray.exceptions.RayError):
        known = sorted(internal_kv._internal_kv_list(b"", namespace=NAMESPACE))
        for old in known[: max(0, len(known) - MAX_SEARCHES + 1)]:
            internal_kv._internal_kv_del(old, namespace=NAMESPACE)
        key = f"{time.time_ns():020d}-{prefix}"
        internal_kv._internal_kv_put(key, json.dumps(about), namespace=NAMESPACE)
