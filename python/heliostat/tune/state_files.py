"""Files with the states of searchers and callbacks, one for each session that wrote into a folder."""

from __future__ import annotations

import glob
import os


def newest_state(folder: str, template: str) -> str | None:
    """Return the file of the template ``name-{}`` that was written last; None: there is none."""
    found = glob.glob(os.path.join(glob.escape(folder), template.format("*")))
    return max(found, key=os.path.getmtime) if found else None
