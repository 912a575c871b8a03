"""Lightning under either of its two package names."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from typing import Any

from heliostat.core.platform.extras import missing


def _find() -> Any:
    # The package that the user has imported comes first: the classes of the two packages differ.
    names = ["lightning.pytorch", "pytorch_lightning"]
    if "pytorch_lightning" in sys.modules and "lightning" not in sys.modules:
        names.reverse()
    for name in names:
        if importlib.util.find_spec(name.partition(".")[0]) is not None:
            return importlib.import_module(name)
    raise missing("lightning", "Trainers of Lightning")


pl: Any = _find()
strategies: Any = importlib.import_module(f"{pl.__name__}.strategies")
environments: Any = importlib.import_module(f"{pl.__name__}.plugins.environments")
