"""The file of a trial's reports, a line each."""

from __future__ import annotations

import contextlib
import json
import os

from heliostat.tune.aliases import Report


def read_results(folder: str) -> list[Report]:
    """The reports in a trial's folder, the torn end of a killed process left out."""
    rows = []
    with contextlib.suppress(FileNotFoundError), open(os.path.join(folder, "result.json")) as file:
        for line in file:
            with contextlib.suppress(ValueError):
                rows.append(json.loads(line))
    return rows
